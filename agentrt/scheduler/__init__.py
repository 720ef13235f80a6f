"""Pure decisions about runs: events go in, decisions come out; no I/O, no clock, no tensors."""

from agentrt.scheduler.apply import apply
from agentrt.scheduler.decide import decide
from agentrt.scheduler.decisions import (
    AdmissionDecision,
    Admit,
    Decision,
    Expire,
    Fill,
    Refusal,
    Refuse,
    Send,
    Start,
    StopNode,
    UpdateInfo,
)
from agentrt.scheduler.estimates.estimates import Estimates, site_of
from agentrt.scheduler.internal_events import (
    CancelRequested,
    CloseRequested,
    DemandEnded,
    Held,
    InternalEvent,
    Performed,
    Released,
)
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.policies.policy import policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey
from agentrt.scheduler.runs.run import NodeState, RunState
from agentrt.scheduler.state import State

__all__ = [
    "AdmissionDecision",
    "Admit",
    "CancelRequested",
    "CloseRequested",
    "Decision",
    "DemandEnded",
    "Estimates",
    "Expire",
    "Fill",
    "Held",
    "InternalEvent",
    "KeyTerms",
    "NodeState",
    "Order",
    "Performed",
    "PriorityKey",
    "Refusal",
    "Refuse",
    "Released",
    "RunState",
    "Send",
    "Start",
    "State",
    "StopNode",
    "UpdateInfo",
    "apply",
    "decide",
    "policy",
    "site_of",
]
