"""The search for a server's best plan: plans to begin with, and changes tried on the best of them.

Settings that may make a server quicker are too many for all of their combinations. So each group of
changes is tried on the best plan of the groups before it, and the quickest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.server_process import ServerPlan


@record
class PlanChange:
    """A setting that may make a server quicker.

    Attributes:
        name: Name of the setting, put behind the plan's variant.
        options: Options added to the command line; of two that are equal the last one counts.
        without: Options taken from it.
        body: Fields added to every request.
        form_body: Fields that hold an answer to a pattern; {} keeps those of the plan.
        drafts: True if tokens are guessed and computed along.
    """

    name: str
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    form_body: Mapping[str, Any] = field(default_factory=dict)
    drafts: bool = False

    def on(self, plan: ServerPlan) -> ServerPlan:
        """The plan with this setting."""
        kept = tuple(part for part in plan.command if part not in self.without)
        return replace(
            plan,
            variant=f"{plan.variant}, {self.name}" if plan.variant else self.name,
            command=(*kept, *self.options),
            body={**plan.body, **self.body},
            form_body=self.form_body or plan.form_body,
        )


@record
class PlanSearch:
    """All that may be the best of a kind of server.

    Attributes:
        plans: Plans to begin with, the plainest first.
        changes: Groups of changes. At most one of each group is kept.
    """

    plans: tuple[ServerPlan, ...]
    changes: tuple[tuple[PlanChange, ...], ...] = ()

    def named(self, variant: str) -> ServerPlan | None:
        """The plan of a variant that an earlier search has kept; None if there is none now."""
        return next((plan for plan in self._all() if plan.variant == variant), None)

    def without_drafts(self) -> PlanSearch:
        """The same without changes that guess tokens."""
        groups = (tuple(one for one in group if not one.drafts) for group in self.changes)
        return replace(self, changes=tuple(group for group in groups if group))

    def _all(self) -> Iterator[ServerPlan]:
        """Every plan that a search may end with."""
        found = list(self.plans)
        for group in self.changes:
            found += [change.on(plan) for plan in found for change in group]
        yield from found
