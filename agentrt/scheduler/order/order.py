"""The order of waiting requests: what holds around every policy, and the policy inside.

From outside to inside: the tenant that had less than its share, the user's priority, how much
slack the deadline leaves, the policy, arrival. Beside it an express lane keeps a bound on waiting:
what is overdue goes first, in the order of arrival, with a small share of each step.
"""

from __future__ import annotations

from enum import IntEnum
from math import floor

from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.fcfs import Fcfs
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey

QUANTUM_S = 2.0
"""Service by which tenants may differ without any of them going first."""

AT_RISK_PATHS = 0.5
"""A deadline is at risk when what it leaves is below so many times the path that remains."""

OVERDUE_S = 30.0
OVERDUE_PATHS = 20.0
"""A request is overdue after this wait, and this many times the path that its run needs."""

OVERDUE_SHARE = 0.1
"""Of a step's tokens and of all slots, for what is overdue; one request may always go."""


class Slack(IntEnum):
    """What a deadline leaves, first to be served first."""

    AT_RISK = 0
    ON_TRACK = 1
    HOPELESS = 2


def slack_of(now_s: float, info: SchedulingInfo) -> tuple[Slack, float]:
    """The class of a request, and the seconds that its deadline leaves beyond the path; 0 without.

    Hopeless is what even an ordinary course would finish too late: it goes last, and is served.
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
    """Whether a request that waits since `since_s` belongs to the express lane."""
    waited_s = now_s - since_s
    return waited_s > OVERDUE_S and waited_s > OVERDUE_PATHS * info.path_p90_s


class Order:
    """Sorts waiting requests.

    Attributes:
        policy: Decides what tenants, priorities and deadlines leave open.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def limited_to(self, waiting: int) -> Order:
        """The order to use when so many wait: policies may have a bound, then arrival decides."""
        most = self.policy.max_waiting
        return self if most is None or waiting <= most else BY_ARRIVAL

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int = 0, cached_tokens: int = 0
    ) -> PriorityKey:
        """Sort key; the smallest goes first. Ties go by arrival, which the caller knows.

        Raises:
            UsageError: The info lacks what the policy cannot do without.
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
        """Whether a key holds at any later instant, of the same facts and cached tokens."""
        return self.policy.time_invariant and info.deadline_at_s is None

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int = 0, cached_tokens: int = 0
    ) -> KeyTerms:
        """What the key was worked out from: all of the policy's, of the rest what was set."""
        slack, slack_s = slack_of(now_s, info)
        shell: list[tuple[str, float]] = []
        if info.tenant_debt_s:
            shell.append(("tenant_quanta", float(_quanta(info))))
        if info.priority:
            shell.append(("priority", float(info.priority)))
        if info.deadline_at_s is not None:
            shell += [("slack_class", float(slack)), ("slack_s", slack_s)]
        return (*shell, *self.policy.terms(now_s, info, uncached_tokens, cached_tokens))


TIE_BREAK_FROM = 5
"""Elements of an `Order.key` up to what the policy goes by; those behind only break ties."""

BY_ARRIVAL = Order(Fcfs())


def _quanta(info: SchedulingInfo) -> int:
    return floor(info.tenant_debt_s / QUANTUM_S)
