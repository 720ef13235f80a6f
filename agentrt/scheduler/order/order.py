"""Order of waiting requests: rules around every policy, and the policy inside.

From outside to inside: the tenant with less than its fair share, the user's priority, the slack of
the deadline, the policy, arrival. Beside it waiting is bounded: overdue requests go first, in the
order of arrival, with a small share of each step.
"""

from __future__ import annotations

from enum import IntEnum
from math import floor

from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.fcfs import Fcfs
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey

QUANTUM_S = 2.0
"""Service by which tenants may differ before one goes first, in seconds."""

AT_RISK_PATHS = 0.5
"""A deadline is at risk when its slack is below this multiple of the remaining path."""

OVERDUE_S = 30.0
OVERDUE_PATHS = 20.0
"""A request is overdue after `OVERDUE_S`, and this multiple of its run's path."""

OVERDUE_SHARE = 0.1
"""Share of a step's tokens and of all slots for overdue requests; one may always go."""


class Slack(IntEnum):
    """Slack of a deadline; the smallest is served first."""

    AT_RISK = 0
    ON_TRACK = 1
    HOPELESS = 2


def slack_of(now_s: float, info: SchedulingInfo) -> tuple[Slack, float]:
    """Slack class of a request, and the seconds left beyond its path; 0 without a deadline.

    A request is hopeless if even its median remaining time exceeds the deadline; it is scheduled
    last, but still served.
    """
    if info.deadline_at_s is None:
        return Slack.ON_TRACK, 0.0
    left_s = info.deadline_at_s - now_s
    slack_s = left_s - info.path_p90_s
    if info.path_p50_s > left_s or left_s <= 0:
        return Slack.HOPELESS, slack_s
    if slack_s < AT_RISK_PATHS * info.path_p90_s:
        return Slack.AT_RISK, slack_s
    return Slack.ON_TRACK, slack_s


def is_overdue(now_s: float, info: SchedulingInfo, since_s: float) -> bool:
    """Whether a request waiting since `since_s` is overdue."""
    waited_s = now_s - since_s
    return waited_s > OVERDUE_S and waited_s > OVERDUE_PATHS * info.path_p90_s


class Order:
    """Sorts waiting requests.

    Attributes:
        policy: Decides between requests that tenants, priorities and deadlines leave equal.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def limited_to(self, waiting: int) -> Order:
        """The order for this many waiting requests; beyond a policy's limit arrival decides."""
        limit = self.policy.max_waiting
        return self if limit is None or waiting <= limit else BY_ARRIVAL

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int = 0, cached_tokens: int = 0
    ) -> PriorityKey:
        """Sort key; the smallest goes first. The caller breaks ties by arrival.

        Raises:
            UsageError: The info lacks something that the policy needs.
        """
        slack, slack_s = slack_of(now_s, info)
        return (
            _quanta(info),
            -info.priority,
            slack,
            slack_s + now_s if slack is Slack.AT_RISK else 0.0,  # the latest instant to begin
            *self.policy.key(now_s, info, uncached_tokens, cached_tokens),
        )

    def is_time_invariant(self, info: SchedulingInfo) -> bool:
        """Whether a key holds at any later instant, for the same info and cached tokens."""
        return self.policy.time_invariant and info.deadline_at_s is None

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int = 0, cached_tokens: int = 0
    ) -> KeyTerms:
        """Terms of a key: all of the policy's, and those of the other rules that apply."""
        slack, slack_s = slack_of(now_s, info)
        outer: list[tuple[str, float]] = []
        if info.tenant_debt_s:
            outer.append(("tenant_quanta", float(_quanta(info))))
        if info.priority:
            outer.append(("priority", float(info.priority)))
        if info.deadline_at_s is not None:
            outer += [("slack_class", float(slack)), ("slack_s", slack_s)]
        return (*outer, *self.policy.terms(now_s, info, uncached_tokens, cached_tokens))


TIE_BREAK_FROM = 5
"""Index in an `Order.key` from which elements only break ties."""

BY_ARRIVAL = Order(Fcfs())


def _quanta(info: SchedulingInfo) -> int:
    return floor(info.tenant_debt_s / QUANTUM_S)
