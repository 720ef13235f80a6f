"""Pure decisions: facts go in, decisions come out; no I/O, no clock, no tensors."""

from agentrt.scheduler.apply import apply
from agentrt.scheduler.decide import decide
from agentrt.scheduler.decisions import Decision, Expire, Fill, Send, Start, Stop, Tell
from agentrt.scheduler.facts import (
    CancelWanted,
    CloseWanted,
    DemandEnded,
    Fact,
    Held,
    Performed,
    Released,
)
from agentrt.scheduler.priority import key
from agentrt.scheduler.state import NodeState, RunState, State

__all__ = [
    "CancelWanted",
    "CloseWanted",
    "Decision",
    "DemandEnded",
    "Expire",
    "Fact",
    "Fill",
    "Held",
    "NodeState",
    "Performed",
    "Released",
    "RunState",
    "Send",
    "Start",
    "State",
    "Stop",
    "Tell",
    "apply",
    "decide",
    "key",
]
