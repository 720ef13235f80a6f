"""What is looked at on a GPU, and what has to come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.lab.bench.engine.points import SweepPoint


@dataclass(frozen=True, slots=True)
class SpeedPart:
    """Rows of one shape, measured in one process.

    Attributes:
        shape: Name of the model's shape.
        rows: By name, in the order in which they run.
        engine: Fields of `EngineConfig`.
        repeats: Rounds that count, of each row, after one that warms up.
        once: Names of the rows that take long, and run once, on a machine that is warm by then.
        idle: Names of the rows in which the device's idleness is looked at too.
    """

    shape: str
    rows: Mapping[str, SweepPoint]
    engine: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 3
    once: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """All of it.

    Attributes:
        device: Where.
        parity: Shapes whose tokens have to be the same whoever computes them.
        speed: What is timed.
    """

    device: str
    parity: Sequence[str]
    speed: Sequence[SpeedPart]


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A figure that has to be reached.

    Attributes:
        name: Of the figure, as the file has it.
        bound: What it is held against.
        at_most: Whether it must not be above; else not below.
    """

    name: str
    bound: float
    at_most: bool = False

    def judged(self, found: Mapping[str, float]) -> dict[str, Any]:
        """As the file says it; `met` is None where the figure was not measured."""
        value = found.get(self.name)
        met = None
        if value is not None:
            met = value <= self.bound if self.at_most else value >= self.bound
        relation = "at most" if self.at_most else "at least"
        return {"figure": self.name, relation: self.bound, "measured": value, "met": met}


TARGETS = (
    GpuTarget("one.decode_share_of_read_ceiling", 0.75),
    GpuTarget("thirty-two.decode_share_of_read_ceiling", 0.70),
    GpuTarget("one.idle_share", 0.02, at_most=True),
    GpuTarget("thirty-two.idle_share", 0.02, at_most=True),
    GpuTarget("siblings.times_unshared", 3.0),
    GpuTarget("kernels.decode_of_read_ceiling", 0.75),
    GpuTarget("kernels.extend_of_matmul_ceiling", 0.55),
)

_BF16 = "bfloat16"

HOPPER = GpuPlan(
    device="cuda",
    parity=("micro", "micro-qwen2", "micro-mixtral"),
    speed=(
        SpeedPart(
            shape="llama-3.1-8b",
            rows={
                "one": SweepPoint(1, 1024, 64, 0, _BF16),
                "thirty-two": SweepPoint(32, 1024, 64, 0, _BF16),
                "siblings": SweepPoint(64, 8192 + 256, 32, 8192, _BF16),
                "unshared": SweepPoint(64, 8192 + 256, 32, 0, _BF16),
            },
            engine={"kv_pages": 36_000},  # 75 GB: all unshared histories of one round
            once=("unshared",),
            idle=("one", "thirty-two"),
        ),
        SpeedPart(
            shape="mixtral-scaled",
            rows={
                "experts one": SweepPoint(1, 1024, 64, 0, _BF16),
                "experts thirty-two": SweepPoint(32, 1024, 64, 0, _BF16),
            },
        ),
    ),
)

REHEARSAL = GpuPlan(
    device="cpu",
    parity=HOPPER.parity,
    speed=(
        SpeedPart(
            shape="micro",
            rows={
                "one": SweepPoint(1, 48, 6, 0, _BF16),
                "thirty-two": SweepPoint(3, 48, 6, 0, _BF16),
                "siblings": SweepPoint(3, 80, 6, 64, _BF16),
                "unshared": SweepPoint(3, 80, 6, 0, _BF16),
            },
            repeats=1,
            once=("unshared",),
        ),
    ),
)
"""The same parts over models of two layers, to see on any machine that the command works."""
