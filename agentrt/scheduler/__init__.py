"""Pure decisions: facts go in, decisions come out; no I/O, no clock, no tensors."""

from agentrt.scheduler.apply import apply
from agentrt.scheduler.deadline import Refusal
from agentrt.scheduler.decide import decide
from agentrt.scheduler.decisions import (
    Admit,
    Decision,
    Expire,
    Fill,
    Refuse,
    Send,
    Start,
    Stop,
    Tell,
    Verdict,
)
from agentrt.scheduler.estimates import Estimates, Place, site_of
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
    "Admit",
    "CancelWanted",
    "CloseWanted",
    "Decision",
    "DemandEnded",
    "Estimates",
    "Expire",
    "Fact",
    "Fill",
    "Held",
    "Key",
    "NodeState",
    "Order",
    "Performed",
    "Place",
    "Policy",
    "Refusal",
    "Refuse",
    "Released",
    "RunState",
    "Send",
    "Start",
    "State",
    "Stop",
    "Tell",
    "Terms",
    "Verdict",
    "apply",
    "decide",
    "policy",
    "site_of",
]
