"""What things take in a simulated machine: a step, and what stands between runtime and engine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.scheduler.estimates.step_model import StepTime

SCHEMA = "agentrt.sim.model/1"


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step computes.

    Attributes:
        prefill_tokens: Prompt tokens.
        decode_tokens: Sequences past their prompt.
        kv_tokens: Tokens whose KV is read, those shared by several sequences counted for each.
        pairs: Of prompt tokens, each with every token that it attends to.
        formed: Sequences whose next token a grammar has a say in.
        waiting: Requests that have no place in it.
    """

    prefill_tokens: int
    decode_tokens: int
    kv_tokens: int
    pairs: float
    formed: int = 0
    waiting: int = 0

    def next(self, sequences: int) -> StepWork:
        """The work of the decode step behind it: every sequence is one token longer."""
        kv_tokens = self.kv_tokens + sequences
        return replace(self, decode_tokens=sequences, kv_tokens=kv_tokens)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much longer things take than costs have it.

    Attributes:
        step: A step, and whatever else is not named here.
        gap: The time between steps: engines that have much to hear take longer for it.
    """

    step: float = 1.0
    gap: float = 1.0


@dataclass(frozen=True, slots=True)
class SimCosts:
    """How long a step takes, and what surrounds it; in seconds but where a name says otherwise.

    Attributes:
        step: Of the engine's steps.
        pair_s: More for each pair of a prompt token and one that it attends to.
        form_s: More for each sequence under a grammar: its mask, and guesses computed along.
        wait_s: More for each request that waits: whether it can come in is worked out again.
        gap_s: From the end of a step to the beginning of the next: it is told, others are heard.
        gap_row_s: More for each sequence that is told of.
        jump_share: Of the tokens that a grammar gives, those written without a step.
        submit_s: From when a turn of the runtime is over until its engine has what was said in it.
        call_s: That the runtime's one thread is busy with declaring and sending a generation.
        call_token_s: More for each token of the prompt that it spells.
        deliver_s: From the end of a step until a value that came with it is there.
        tell_s: Of that, what the runtime's thread is busy for: with each step, ends or not.
        delta_s: More for each sequence of a step.
        close_s: More for each generation that ends, before any of their values is there.
        run_s: From when a run is due until its first nodes are declared.
        end_s: From its last value until its caller has the result.
        tool_s: More than a tool itself takes: to begin it, and until what follows is declared.
        copy_token_s: To copy the KV of a token between the device and the host.
        kv_token_bytes: That it takes; 0 where nobody said, and then no host keeps any.
        about: Where the figures come from: device, commit, date, residuals.
    """

    step: StepTime
    pair_s: float = 0.0
    form_s: float = 0.0
    wait_s: float = 0.0
    gap_s: float = 0.0
    gap_row_s: float = 0.0
    jump_share: float = 1.0
    submit_s: float = 0.0
    call_s: float = 0.0
    call_token_s: float = 0.0
    deliver_s: float = 0.0
    tell_s: float = 0.0
    delta_s: float = 0.0
    close_s: float = 0.0
    run_s: float = 0.0
    end_s: float = 0.0
    tool_s: float = 0.0
    copy_token_s: float = 0.0
    kv_token_bytes: float = 0.0
    about: dict[str, Any] = field(default_factory=dict, compare=False)

    def of(self, work: StepWork) -> float:
        """Seconds that a step over `work` takes."""
        step = self.step
        return (
            step.base_s
            + step.prefill_s * work.prefill_tokens
            + step.decode_s * work.decode_tokens
            + step.kv_s * work.kv_tokens
            + self.pair_s * work.pairs
            + self.form_s * work.formed
            + self.wait_s * work.waiting
        )

    def gap_of(self, sequences: int) -> float:
        """Seconds between a step over so many sequences and the next."""
        return self.gap_s + self.gap_row_s * sequences

    def paced(self, pace: Pace) -> SimCosts:
        """Of a machine on which everything takes so much longer."""
        shares = {"step", "jump_share", "kv_token_bytes", "about"}
        times = {part.name for part in fields(self)} - shares
        step = {part.name: pace.step * getattr(self.step, part.name) for part in fields(StepTime)}
        by = {name: pace.gap if name in ("gap_s", "gap_row_s") else pace.step for name in times}
        return replace(
            self, step=StepTime(**step), **{name: by[name] * getattr(self, name) for name in times}
        )

    def to_json(self) -> dict[str, Any]:
        """As `agentrt sim fit` writes it."""
        return {"schema": SCHEMA, **asdict(self)}


MEMORY_BYTES_S = 20e9
"""What a few cores copy within their memory: each byte is read and written."""

HALF_ON_TWO_CORES = SimCosts(
    StepTime(base_s=0.022, prefill_s=0.0020, decode_s=0.0011, kv_s=2.0e-6),
    submit_s=80e-6,
    call_s=150e-6,
    call_token_s=1e-6,
    deliver_s=60e-6,
    delta_s=30e-6,
    run_s=200e-6,
    copy_token_s=24_576 / MEMORY_BYTES_S,
    kv_token_bytes=24_576,
    about={"device": "two CPU cores, a model of 303 million parameters", "kind": "typical"},
)
"""A small model on a small machine, for a look without a fit."""

EIGHT_B_ON_H200 = SimCosts(
    StepTime(base_s=0.0040, prefill_s=32e-6, decode_s=12e-6, kv_s=2.7e-8),
    pair_s=1.1e-10,
    submit_s=80e-6,
    call_s=150e-6,
    call_token_s=1e-6,
    deliver_s=60e-6,
    delta_s=30e-6,
    run_s=200e-6,
    copy_token_s=131_072 / 50e9,  # PCIe 5 with 16 lanes
    kv_token_bytes=131_072,
    about={
        "device": "one GPU of 4.8 TB/s and 989 TFLOP/s, a model of 8 billion parameters",
        "kind": "roofline at 84 % of the bandwidth and half of the arithmetic",
    },
)
"""What one large GPU could do by its data sheet; no measurement."""

NAMED = {"half-cpu": HALF_ON_TWO_CORES, "8b-h200": EIGHT_B_ON_H200}


def load_costs(name: str) -> SimCosts:
    """The costs in a file that `agentrt sim fit` or `calibrate` wrote, or named ones.

    Raises:
        UsageError: There is no such file or name, or it holds something else.
    """
    if name in NAMED:
        return NAMED[name]
    path = Path(name)
    hint = f"Give a file of `agentrt sim fit`, or one of {', '.join(NAMED)}"
    try:
        told = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"no step model {name!r}: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}", hint=hint) from error
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        raise UsageError(f"{name} does not hold {SCHEMA}", hint=hint)
    step, about = told.get("step"), told.get("about", {})
    rest = {key: value for key, value in told.items() if key not in ("schema", "step", "about")}
    if not isinstance(step, dict) or not isinstance(about, dict):
        raise UsageError(f"{name} tells no step", hint=hint)
    parts = {part.name for part in fields(StepTime) if part.name not in step}
    parts |= {key for key, value in step.items() if not _is_part(StepTime, key, value)}
    parts |= {key for key, value in rest.items() if not _is_part(SimCosts, key, value)}
    if parts:
        raise UsageError(f"{name}: {', '.join(sorted(parts))}: not as costs have it", hint=hint)
    return SimCosts(StepTime(**step), **rest, about=about)


def _is_part(kind: type[StepTime | SimCosts], key: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return key in {part.name for part in fields(kind)} and number and 0 <= value < 1e6
