"""The checks of a GPU, and the figures that it has to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from agentrt.base.record import record
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.flags import DraftsFlags

PROCESSES = {"cuda": 7, "cpu": 1}
"""Processes at once where nothing is timed: each spends most of its time on its start."""


@record
class SpeedPart:
    """Points of one shape, measured in one process.

    Attributes:
        shape: Name of the model's shape.
        points: Points by name, in the order in which they run.
        engine: Fields of `EngineConfig`.
        repeats: Rounds of each point that count, after one that warms up.
        once: Names of points that take long, and run once, on a machine that is warm by then.
        idle: Names of points at which the device's idleness is measured too.
    """

    shape: str
    points: Mapping[str, SweepPoint]
    engine: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 3
    once: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


@record
class GpuPlan:
    """All checks.

    Attributes:
        device: Device of all arms.
        parity: Shapes for which all arms have to produce the same tokens.
        speed: Points that are timed.
        speculation: Shapes for which drafts of all kinds have to leave every token as it is.
        drafts: Benches of drafts: time a token with them by that without.
    """

    device: str
    parity: Sequence[str]
    speed: Sequence[SpeedPart]
    speculation: Sequence[str] = ()
    drafts: Sequence[DraftsFlags] = ()


@record
class GpuTarget:
    """A figure that has to be reached.

    Attributes:
        name: Name of the figure in the file.
        bound: Limit of the figure.
        at_most: True if the bound is an upper one, False for a lower one.
    """

    name: str
    bound: float
    at_most: bool = False

    def judged(self, found: Mapping[str, float]) -> dict[str, Any]:
        """The target in the file; `met` is None if the figure was not measured."""
        value = found.get(self.name)
        met = None
        if value is not None:
            met = value <= self.bound if self.at_most else value >= self.bound
        relation = "at most" if self.at_most else "at least"
        return {"figure": self.name, relation: self.bound, "measured": value, "met": met}


TARGETS = (
    GpuTarget("one.decode_share_of_read_ceiling", 0.75),
    GpuTarget("thirty-two.decode_share_of_read_ceiling", 0.70),
    GpuTarget("one.waiting_share", 0.02, at_most=True),
    GpuTarget("thirty-two.waiting_share", 0.02, at_most=True),
    GpuTarget("siblings.times_unshared", 3.0),
    GpuTarget("drafts.copy.ratio", 0.6, at_most=True),
    GpuTarget("drafts.form.ratio", 0.9, at_most=True),
    GpuTarget("drafts.new.ratio", 1.03, at_most=True),
    GpuTarget("kernels.decode_of_read_ceiling", 0.75),
    GpuTarget("kernels.extend_of_matmul_ceiling", 0.55),
    # Reasoned from bytes, and from twice the rate of FP8; nothing was measured yet.
    GpuTarget("products.int4 in groups.1 rows.times_plain", 2.5),
    GpuTarget("products.int8.1 rows.times_plain", 1.5),
    GpuTarget("products.int4 in groups.16 rows.times_plain", 2.0),
    GpuTarget("products.fp8 by fp8.2048 rows.times_plain", 1.3),
    GpuTarget("experts.int4 in groups.8 rows.times_plain", 2.0),
    GpuTarget("experts.mxfp4.64 rows.times_plain", 2.0),
)


def _points(sizes: Mapping[str, tuple[int, int, int, int]]) -> Mapping[str, SweepPoint]:
    """Points in bf16 by name, of a batch and its prompt, new and shared tokens."""
    return {name: SweepPoint(*size, "bfloat16") for name, size in sizes.items()}


HOPPER = GpuPlan(
    device="cuda",
    parity=("micro", "micro-qwen2", "micro-mixtral"),
    speed=(
        SpeedPart(
            "llama-3.1-8b",
            _points(
                {
                    "one": (1, 1024, 64, 0),
                    "thirty-two": (32, 1024, 64, 0),
                    # So many new tokens that all are decoded before the first has ended.
                    "siblings": (64, 8192 + 256, 112, 8192),
                    "unshared": (64, 8192 + 256, 112, 0),
                }
            ),
            engine={"kv_pages": 36_000},  # 75 GB: all unshared histories of one round
            once=("unshared",),
            idle=("one", "thirty-two"),
        ),
        SpeedPart(
            "mixtral-scaled",
            _points({"experts one": (1, 1024, 64, 0), "experts thirty-two": (32, 1024, 64, 0)}),
            idle=("experts one",),
        ),
        SpeedPart(
            "mixtral-fine",
            _points({"cold experts one": (1, 1024, 64, 0), "cold experts eight": (8, 256, 64, 0)}),
            engine={"expert_memory": "800MB"},  # half of them
        ),
    ),
    speculation=("micro", "micro-qwen2"),
    drafts=(
        DraftsFlags(shape="half", batch="1", device="cuda", kernels="triton", repeat=5),
        DraftsFlags(shape="embedded", batch="1", device="cuda", kernels="triton", repeat=5),
        DraftsFlags(shape="half", batch="16", device="cuda", kernels="triton", repeat=5),
    ),
)

_REHEARSED = {
    "one": (1, 48, 6, 0),
    "thirty-two": (3, 48, 6, 0),
    "siblings": (3, 80, 6, 64),
    "unshared": (3, 80, 6, 0),
}
REHEARSAL = GpuPlan(
    device="cpu",
    parity=HOPPER.parity,
    speed=(SpeedPart("micro", _points(_REHEARSED), repeats=1, once=("unshared",)),),
    speculation=("micro",),
    drafts=(
        DraftsFlags(
            shape="micro", batch="1", prompt=48, new=40, threads=1, dtype="float32", quick=True
        ),
    ),
)
"""The same checks over models of two layers, to try the command on any machine."""
