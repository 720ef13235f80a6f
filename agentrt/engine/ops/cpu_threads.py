"""CPU threads: how many compute and how they wait, measured on this machine with the model itself.

On quiet cores two threads that spin win. Beside busy processes a thread that waits at a barrier can
stall for a scheduler's tick of 8 ms, and one thread is faster than two. So each choice computes a
few steps in turn, a token and a page of a prompt, and the least time wins. The result is stored for
starts of the next hour under ~/.cache/agentrt/threads, as neighbours come and go; `agentrt doctor`
measures again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Literal, cast

from agentrt.base.atomic_write import write_atomically
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.gguf.gguf_file import open_gguf
from agentrt.base.user_folders import cache_folder

Wait = Literal["active", "passive"]

SMALL_MODEL_PARAMETERS = 4_000_000
"""In smaller models a step is over before a second thread has begun; nothing is measured."""

VALID_S = 3600.0

_BUDGET_S = 0.4
_MIN_ROUNDS = 3
_MAX_ROUNDS = 25
_THREADS_PAY_SHARE = 0.9
"""More threads must take less than this share of the time of fewer."""
_SPINNING_PAYS_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Timing:
    """Measurement of one choice.

    Attributes:
        threads: Number of threads.
        wait: Whether waiting threads spin for long.
        step_s: Mean time of a step, stalls included.
    """

    threads: int
    wait: Wait
    step_s: float


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """The choice of threads.

    Attributes:
        threads: Number of compute threads.
        wait: How they wait.
        reason: Why, for display.
        timings: Measurements; empty if there were none.
    """

    threads: int
    wait: Wait
    reason: str
    timings: tuple[Timing, ...] = ()


def candidates(cores: int, waits: Sequence[Wait]) -> list[tuple[int, Wait]]:
    """Choices to measure: one thread, and powers of two up to all cores, with each wait policy."""
    counts = [count for count in (2, 4, 8, 16, 32, 64) if count < cores]
    if cores > 1:
        counts.append(cores)
    return [(1, "passive"), *((count, wait) for count in counts for wait in waits)]


def fastest(timings: Sequence[Timing]) -> ThreadChoice:
    """The fastest choice; of about equal ones, the one with fewer threads and passive waiting."""
    least_first = sorted(timings, key=lambda one: (one.threads, one.wait == "active"))
    best = least_first[0]
    for timing in least_first:
        share = _THREADS_PAY_SHARE if timing.threads > best.threads else _SPINNING_PAYS_SHARE
        if timing.step_s < best.step_s * share:
            best = timing
    measured = ", ".join(
        f"{one.threads} {one.wait} {1e3 * one.step_s:.2f} ms"
        for one in sorted(timings, key=lambda one: one.step_s)
    )
    return ThreadChoice(best.threads, best.wait, f"a step took: {measured}", tuple(timings))


def measure(
    choices: Sequence[tuple[int, Wait]],
    use: Callable[[int, Wait], None],
    step: Callable[[], object],
    now_s: Callable[[], float] = perf_counter,
) -> list[Timing]:
    """Measure steps under each choice in turn, so that a disturbance affects all of them.

    Args:
        choices: Threads and wait policy of each.
        use: Applies a choice.
        step: Computes one step.
        now_s: Clock, in seconds.
    """
    began_s = now_s()
    spent_s = [0.0] * len(choices)
    rounds = 0
    while rounds < _MIN_ROUNDS or (rounds < _MAX_ROUNDS and now_s() - began_s < _BUDGET_S):
        for at, (threads, wait) in enumerate(choices):
            use(threads, wait)
            step()  # wakes threads, warms caches
            before_s = now_s()
            step()
            spent_s[at] += now_s() - before_s
        rounds += 1
    return [
        Timing(threads, wait, spent / rounds)
        for (threads, wait), spent in zip(choices, spent_s, strict=True)
    ]


def choose_threads(
    config: EngineConfig,
    computed_by: str,
    parameters: int,
    waits: Sequence[Wait],
    use: Callable[[int, Wait], None],
    step: Callable[[], object],
    now_s: Callable[[], float] = perf_counter,
    *,
    known: ThreadChoice | None = None,
) -> ThreadChoice:
    """Choose the threads, and compute with them from now on.

    Args:
        config: Config of the engine.
        computed_by: Kernels and dtype, on which the result depends.
        parameters: Number of parameters of the model.
        waits: Wait policies that `use` can apply.
        use: Applies a number of threads and a wait policy.
        step: Computes one decode step.
        now_s: Clock, in seconds.
        known: Choice that came with the model, in place of a measurement.
    """
    choice = _fixed_choice(config, computed_by)
    if choice is None:
        if known is not None and 0 < known.threads <= cores():
            choice = replace(known, reason=f"{known.reason}, when the model was compiled")
        elif parameters < SMALL_MODEL_PARAMETERS:
            choice = ThreadChoice(1, "passive", "a step of so small a model is too short for two")
        else:
            choice = fastest(measure(candidates(cores(), waits), use, step, now_s))
        _store_choice(_file(config, computed_by), choice)
    use(choice.threads, choice.wait)
    return choice


def stored_choice(config: EngineConfig, computed_by: str) -> ThreadChoice | None:
    """Choice measured for this model at a start within the last hour, or None."""
    file = _file(config, computed_by)
    try:
        if time.time() - file.stat().st_mtime > VALID_S:
            return None
        stored = json.loads(file.read_text(encoding="utf-8"))
        timings = tuple(Timing(**one) for one in stored["timings"])
        count, wait = int(stored["threads"]), str(stored["wait"])
        if not 0 < count <= cores() or wait not in ("active", "passive"):
            return None
        return ThreadChoice(count, cast(Wait, wait), str(stored["reason"]), timings)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measured_with(computed_by: str) -> str:
    """Machine, cores and kernels with which a choice is measured: another machine measures anew."""
    return f"{platform.machine()} {cores()} {computed_by}"


def forget_choice(config: EngineConfig) -> None:
    """Make this model's next start measure again."""
    with contextlib.suppress(OSError):
        for file in _folder().glob(f"{_model_digest(config)}-*.json"):
            file.unlink(missing_ok=True)


def _fixed_choice(config: EngineConfig, computed_by: str) -> ThreadChoice | None:
    """Choice that needs no measurement, or None."""
    if config.threads:
        return ThreadChoice(config.threads, "passive", "asked for")
    if config.device != "cpu":
        return ThreadChoice(cores(), "passive", f"the model computes on {config.device}")
    if cores() == 1:
        return ThreadChoice(1, "passive", "there is one core")
    return stored_choice(config, computed_by)


def _file(config: EngineConfig, computed_by: str) -> Path:
    machine = f"{platform.node()} {measured_with(computed_by)}"
    return _folder() / f"{_model_digest(config)}-{_digest(machine.encode())}.json"


def _model_digest(config: EngineConfig) -> str:
    try:
        if is_gguf(config.model_path):
            return _digest(open_gguf(config.model_path).header_digest.encode())
        return _digest((config.model_path / "config.json").read_bytes())
    except (OSError, ModelInvalid):
        return _digest(b"")


def _digest(seen: bytes) -> str:
    return hashlib.blake2b(seen, digest_size=8).hexdigest()


def _folder() -> Path:
    return cache_folder(os.environ) / "threads"


def _store_choice(file: Path, choice: ThreadChoice) -> None:
    with contextlib.suppress(OSError):  # if nothing can be stored, the next start measures again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(asdict(choice)).encode())
