"""How many threads compute, and how they wait: measured on this machine with the model itself.

On quiet cores two threads that spin win; beside busy processes a thread that waits at a barrier can
stall for a scheduler's tick of 8 ms, and one thread is faster than two. So each choice computes a
few steps in turn, a token and a page of a prompt, and the least time wins. The answer is kept for
starts of the next hour under ~/.cache/agentrt/threads, as neighbours come and go; `agentrt doctor`
asks again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal, cast

from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores

Wait = Literal["active", "passive"]

FEW_PARAMETERS = 4_000_000
"""Below this a step is over before a second thread has begun; it is not worth asking."""

KEPT_S = 3600.0

_BUDGET_S = 0.4
_LEAST_ROUNDS = 3
_MOST_ROUNDS = 25
_WORTH_THREADS = 0.9
"""More threads have to take less than this share of the time of fewer."""
_WORTH_SPINNING = 0.95


@dataclass(frozen=True, slots=True)
class Timing:
    """One choice, tried.

    Attributes:
        threads: How many.
        wait: Whether who waits spins for long.
        step_s: Mean time of a step; a stall counts as much as it lasts.
    """

    threads: int
    wait: Wait
    step_s: float


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """What was chosen.

    Attributes:
        threads: How many compute.
        wait: How they wait.
        reason: For people.
        timings: What was measured; empty where nothing was.
    """

    threads: int
    wait: Wait
    reason: str
    timings: tuple[Timing, ...] = ()


def candidates(cores: int, waits: Sequence[Wait]) -> list[tuple[int, Wait]]:
    """What is worth trying: one thread, and powers of two up to all cores, waiting each way."""
    counts = [count for count in (2, 4, 8, 16, 32, 64) if count < cores]
    if cores > 1:
        counts.append(cores)
    return [(1, "passive"), *((count, wait) for count in counts for wait in waits)]


def choose(timings: Sequence[Timing]) -> ThreadChoice:
    """The fastest; of what is about as fast, fewer threads, and waiting that leaves cores free."""
    least_first = sorted(timings, key=lambda one: (one.threads, one.wait == "active"))
    best = least_first[0]
    for timing in least_first:
        share = _WORTH_THREADS if timing.threads > best.threads else _WORTH_SPINNING
        if timing.step_s < best.step_s * share:
            best = timing
    told = ", ".join(
        f"{one.threads} {one.wait} {1e3 * one.step_s:.2f} ms"
        for one in sorted(timings, key=lambda one: one.step_s)
    )
    return ThreadChoice(best.threads, best.wait, f"a step took: {told}", tuple(timings))


def probe(
    tried: Sequence[tuple[int, Wait]],
    use: Callable[[int, Wait], None],
    step: Callable[[], object],
    now_s: Callable[[], float] = perf_counter,
) -> list[Timing]:
    """Compute steps under each choice, in turn, so that what disturbs them disturbs all.

    Args:
        tried: Threads and waiting.
        use: Compute so from now on.
        step: One step.
        now_s: A clock.
    """
    began_s = now_s()
    spent_s = [0.0] * len(tried)
    rounds = 0
    while rounds < _LEAST_ROUNDS or (rounds < _MOST_ROUNDS and now_s() - began_s < _BUDGET_S):
        for at, (threads, wait) in enumerate(tried):
            use(threads, wait)
            step()  # threads wake, weights come near
            before_s = now_s()
            step()
            spent_s[at] += now_s() - before_s
        rounds += 1
    return [
        Timing(threads, wait, spent / rounds)
        for (threads, wait), spent in zip(tried, spent_s, strict=True)
    ]


def settle(
    config: EngineConfig,
    computed_by: str,
    parameters: int,
    waits: Sequence[Wait],
    use: Callable[[int, Wait], None],
    step: Callable[[], object],
    now_s: Callable[[], float] = perf_counter,
) -> ThreadChoice:
    """Choose, and compute so from now on.

    Args:
        config: Of the engine.
        computed_by: Kernels and dtype, which the answer depends on.
        parameters: Of the model.
        waits: Ways to wait that `use` can set.
        use: Compute with so many threads from now on, waiting so.
        step: One decode step.
        now_s: A clock, in seconds.
    """
    choice = _decided(config, computed_by)
    if choice is None:
        if parameters < FEW_PARAMETERS:
            choice = ThreadChoice(1, "passive", "a step of so small a model is too short for two")
        else:
            choice = choose(probe(candidates(cores(), waits), use, step, now_s))
        _keep(_file(config, computed_by), choice)
    use(choice.threads, choice.wait)
    return choice


def known(config: EngineConfig, computed_by: str) -> ThreadChoice | None:
    """What was measured for this model at a start in the last hour, or None."""
    file = _file(config, computed_by)
    try:
        if time.time() - file.stat().st_mtime > KEPT_S:
            return None
        kept = json.loads(file.read_text(encoding="utf-8"))
        timings = tuple(Timing(**one) for one in kept["timings"])
        count, wait = int(kept["threads"]), str(kept["wait"])
        if not 0 < count <= cores() or wait not in ("active", "passive"):
            return None
        return ThreadChoice(count, cast(Wait, wait), str(kept["reason"]), timings)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(config: EngineConfig) -> None:
    """Measure again at this model's next start."""
    with contextlib.suppress(OSError):
        for file in _home().glob(f"{_of_model(config)}-*.json"):
            file.unlink(missing_ok=True)


def _decided(config: EngineConfig, computed_by: str) -> ThreadChoice | None:
    """What need not be measured."""
    if config.threads:
        return ThreadChoice(config.threads, "passive", "asked for")
    if config.device != "cpu":
        return ThreadChoice(cores(), "passive", f"the model computes on {config.device}")
    if cores() == 1:
        return ThreadChoice(1, "passive", "there is one core")
    return known(config, computed_by)


def _file(config: EngineConfig, computed_by: str) -> Path:
    machine = f"{platform.node()} {platform.machine()} {cores()} {computed_by}"
    return _home() / f"{_of_model(config)}-{_digest(machine.encode())}.json"


def _of_model(config: EngineConfig) -> str:
    try:
        return _digest((config.model_path / "config.json").read_bytes())
    except OSError:
        return _digest(b"")


def _digest(seen: bytes) -> str:
    return hashlib.blake2b(seen, digest_size=8).hexdigest()


def _home() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "agentrt" / "threads"


def _keep(file: Path, choice: ThreadChoice) -> None:
    fresh = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # where nothing can be kept, the next start asks again
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(asdict(choice)), encoding="utf-8")
        fresh.replace(file)
