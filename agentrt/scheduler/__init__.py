"""Pure decisions about runs: events go in, decisions come out; no I/O, no clock, no tensors."""

from agentrt.scheduler.apply import apply as apply
from agentrt.scheduler.decide import decide as decide
from agentrt.scheduler.decisions import (
    AdmissionDecision as AdmissionDecision,
    Admit as Admit,
    Decision as Decision,
    Expire as Expire,
    Fill as Fill,
    Refusal as Refusal,
    Refuse as Refuse,
    Send as Send,
    Start as Start,
    StopNode as StopNode,
    UpdateInfo as UpdateInfo,
)
from agentrt.scheduler.estimates.estimates import Estimates as Estimates, site_of as site_of
from agentrt.scheduler.internal_events import (
    CancelRequested as CancelRequested,
    CloseRequested as CloseRequested,
    DemandEnded as DemandEnded,
    Held as Held,
    InternalEvent as InternalEvent,
    KvRoomLearned as KvRoomLearned,
    Released as Released,
)
from agentrt.scheduler.order.order import Order as Order
from agentrt.scheduler.policies.registry import policy as policy
from agentrt.scheduler.policies.priority_key import KeyTerms as KeyTerms, PriorityKey as PriorityKey
from agentrt.scheduler.runs.run import NodeState as NodeState, RunState as RunState
from agentrt.scheduler.state import State as State
