"""Costs of a simulated machine: the time of a step, and of the runtime around the engine."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.result_file import read_json
from agentrt.scheduler.estimates.step_model import StepTime

SCHEMA = "agentrt.sim.model/1"


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step.

    Attributes:
        prefill_tokens: Prompt tokens.
        decode_tokens: Sequences past their prompt.
        kv_tokens: Tokens whose KV is read, those shared by several sequences counted for each.
        pairs: Pairs of a prompt token and a token that it attends to.
        formed: Sequences whose next token a grammar constrains.
        waiting: Requests that are not in the batch.
    """

    prefill_tokens: int
    decode_tokens: int
    kv_tokens: int
    pairs: float
    formed: int = 0
    waiting: int = 0

    def next(self, sequences: int) -> StepWork:
        """The work of the decode step that follows: every sequence is one token longer."""
        kv_tokens = self.kv_tokens + sequences
        return replace(self, decode_tokens=sequences, kv_tokens=kv_tokens)


@dataclass(frozen=True, slots=True)
class Pace:
    """Measured time divided by the time that costs give.

    Attributes:
        step: Ratio of steps, and of all times but gaps.
        gap: Ratio of the time between steps, which is longer if many requests arrive.
    """

    step: float = 1.0
    gap: float = 1.0


@dataclass(frozen=True, slots=True)
class SimCosts:
    """Seconds of a step and of the runtime around it, unless a name has another unit.

    Attributes:
        step: Linear model of the time of a step.
        pair_s: Step time for each pair of a prompt token and a token that it attends to.
        form_s: Step time for each sequence with a grammar: its bitmask and its drafts.
        wait_s: Step time for each waiting request, whose admission is tried again.
        gap_s: End of a step to the beginning of the next, with the delivery of its output.
        gap_row_s: Gap time for each sequence of the step.
        jump_share: Share of a grammar's forced tokens that take no step.
        submit_s: End of a turn of the runtime to the arrival of its messages at the engine.
        call_s: Time of the runtime's thread to declare and send a generation.
        call_token_s: Time of that thread for each new token of the prompt.
        deliver_s: End of a step to the arrival of its values at the program.
        tell_s: Part of `deliver_s` in which the runtime's thread is busy, at every step.
        delta_s: Time of that thread for each sequence of a step.
        close_s: Time of that thread for each generation that ends, before all values of the step.
        run_s: Arrival of a run to the declaration of its first nodes.
        end_s: Last value of a run to the arrival of the result at its caller.
        tool_s: Time of a tool call beside the tool itself, up to the next declaration.
        copy_token_s: Copy of a token's KV between the device and the host.
        kv_token_bytes: Memory of a token's KV; 0 if unknown, which allows no offload tier.
        about: Origin of the figures: device, commit, date, residuals.
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
        """Seconds of a step."""
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
        """Seconds between a step of so many sequences and the next."""
        return self.gap_s + self.gap_row_s * sequences

    def paced(self, pace: Pace) -> SimCosts:
        """Costs of a machine with another pace."""
        return self.times(step=pace.step, gap=pace.gap, runtime=pace.step)

    def times(self, *, step: float, gap: float, runtime: float) -> SimCosts:
        """Costs with other times of steps and copies, of the gaps between steps, of the runtime."""
        other = {"step", "jump_share", "kv_token_bytes", "about"}
        ratios = dict.fromkeys({part.name for part in fields(self)} - other, runtime)
        ratios |= dict.fromkeys(("pair_s", "form_s", "wait_s", "copy_token_s"), step)
        ratios |= {"gap_s": gap, "gap_row_s": gap}
        times = {name: ratio * getattr(self, name) for name, ratio in ratios.items()}
        parts = StepTime(*(step * part_s for part_s in astuple(self.step)))
        return replace(self, step=parts, **times)

    def to_json(self) -> dict[str, Any]:
        """The content of a file of costs."""
        return {"schema": SCHEMA, **asdict(self)}


MEMORY_BYTES_S = 20e9
"""Rate at which a few cores copy within their memory; each byte is read and written."""

NO_COSTS = SimCosts(StepTime(0.0, 0.0, 0.0, 0.0))

_TYPICAL_RUNTIME = replace(
    NO_COSTS,
    submit_s=80e-6,
    call_s=150e-6,
    call_token_s=1e-6,
    deliver_s=60e-6,
    delta_s=30e-6,
    run_s=200e-6,
)

HALF_ON_TWO_CORES = replace(
    _TYPICAL_RUNTIME,
    step=StepTime(base_s=0.022, prefill_s=0.0020, decode_s=0.0011, kv_s=2.0e-6),
    copy_token_s=24_576 / MEMORY_BYTES_S,
    kv_token_bytes=24_576,
    about={"device": "two CPU cores, a model of 303 million parameters", "kind": "typical"},
)
"""A small model on a small machine, without a fit."""

EIGHT_B_ON_H200 = replace(
    _TYPICAL_RUNTIME,
    step=StepTime(base_s=0.0040, prefill_s=32e-6, decode_s=12e-6, kv_s=2.7e-8),
    pair_s=1.1e-10,
    copy_token_s=131_072 / 50e9,  # PCIe 5 with 16 lanes
    kv_token_bytes=131_072,
    about={
        "device": "one GPU of 4.8 TB/s and 989 TFLOP/s, a model of 8 billion parameters",
        "kind": "roofline at 84 % of the bandwidth and half of the arithmetic",
    },
)
"""One large GPU by its data sheet; no measurement."""

NAMED = {"half-cpu": HALF_ON_TWO_CORES, "8b-h200": EIGHT_B_ON_H200}


def load_costs(name: str) -> SimCosts:
    """The costs in a file that `agentrt sim fit` or `calibrate` wrote, or named ones.

    Raises:
        UsageError: There is no such file or name, or it holds something else.
    """
    if name in NAMED:
        return NAMED[name]
    hint = f"Give a file of `agentrt sim fit`, or one of {', '.join(NAMED)}"
    found = read_json(Path(name), SCHEMA, hint)
    step, about = found.get("step"), found.get("about", {})
    rest = {key: value for key, value in found.items() if key not in ("schema", "step", "about")}
    if not isinstance(step, dict) or not isinstance(about, dict):
        raise UsageError(f"{name} has no costs of a step", hint=hint)
    wrong = {part.name for part in fields(StepTime)} - step.keys()
    wrong |= {key for key, value in step.items() if not _is_part(StepTime, key, value)}
    wrong |= {key for key, value in rest.items() if not _is_part(SimCosts, key, value)}
    if wrong:
        raise UsageError(f"{name}: {', '.join(sorted(wrong))}: no valid costs", hint=hint)
    return SimCosts(StepTime(**step), **rest, about=about)


def _is_part(kind: type[StepTime | SimCosts], key: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return key in {part.name for part in fields(kind)} and number and 0 <= value < 1e6
