"""The state of a machine in two numbers: the pace of an engine's steps, and of the runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.sim.costs import SimCosts
from agentrt.program import chat, gather, program, tool
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import StepDone
from agentrt.scheduler import Estimates

_ROUNDS = 7
_WIDE = 8
_TOKENS = 32
_NODES = 200


@record
class MachineState:
    """Times of a short probe, no part of which is a play of a program.

    Attributes:
        step_s: A decode step of eight sequences.
        node_s: A node of the runtime that does nothing.
    """

    step_s: float
    node_s: float

    def since(self, before: MachineState) -> StateFactors:
        """The change since another probe."""
        return StateFactors(self.step_s / before.step_s, self.node_s / before.node_s)


@record
class StateFactors:
    """Times of a machine by those of its calibration.

    Attributes:
        compute: Ratio of the time of steps.
        runtime: Ratio of the time of the runtime, and of the engine between steps.
    """

    compute: float
    runtime: float

    def of(self, costs: SimCosts) -> SimCosts:
        """The costs of the machine in this state."""
        return costs.times(step=self.compute, gap=self.runtime, runtime=self.runtime)


@tool(effects="read")
async def _nothing(at: int) -> str:
    """Return at once."""
    return ""


@program
async def _nodes(count: int) -> int:
    """Nodes one after the other that do nothing."""
    for at in range(count):
        await _nothing(at)
    return count


@program
async def _decodes(serial: int) -> int:
    """Generations side by side."""
    ask = chat().user(f"probe {serial}")
    asks = (ask.user(f"{at}") for at in range(_WIDE))
    await gather(*(one.generate(max_tokens=_TOKENS, ignore_eos=True) for one in asks))
    return serial


class _Decodes:
    """Keeps the time of decode steps of all sequences of the probe."""

    def __init__(self) -> None:
        self.steps_s: list[float] = []

    def on_events(self, events: Sequence[Event]) -> None:
        steps = (one.step for one in events if isinstance(one, StepDone))
        for step in filter(None, steps):
            if step.prefill_tokens == 0 and step.decode_tokens == _WIDE:
                self.steps_s.append(step.ended_at_s - step.started_at_s)


async def measure_state(config: EngineConfig) -> MachineState:
    """Probe the machine for a second, after an engine has started.

    Args:
        config: Settings of the engine.
    """
    observer = _Decodes()
    nodes_s: list[float] = []
    async with open_runtime(
        engine=config, models={}, observers=[observer], estimates=Estimates()
    ) as runtime:
        for number in range(_ROUNDS + 1):
            if number == 1:  # the first round warms up
                observer.steps_s.clear()
                nodes_s.clear()
            await runtime.run(_decodes, number)
            before_s = time.monotonic()
            await runtime.run(_nodes, _NODES)
            nodes_s.append((time.monotonic() - before_s) / _NODES)
    return MachineState(median(observer.steps_s), median(nodes_s))


def state_in(costs: SimCosts) -> MachineState:
    """The state of the machine when these costs were calibrated.

    Raises:
        UsageError: The file does not have it.
    """
    found: dict[str, Any] = costs.about.get("state", {})
    try:
        return MachineState(float(found["step_s"]), float(found["node_s"]))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "the costs do not say in which state the machine was",
            hint="Calibrate with plays: agentrt sim calibrate --plays 24 --out FILE",
        ) from None
