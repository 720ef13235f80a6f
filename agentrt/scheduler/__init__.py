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
from agentrt.scheduler.key import Key, Terms
from agentrt.scheduler.order import Order
from agentrt.scheduler.policy import Policy, policy
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
    "Key",
    "NodeState",
    "Order",
    "Performed",
    "Policy",
    "Released",
    "RunState",
    "Send",
    "Start",
    "State",
    "Stop",
    "Tell",
    "Terms",
    "apply",
    "decide",
    "policy",
]
