"""KV that a program needs, as only a replay knows it."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.scheduler import Estimates
from agentrt.scheduler.admission.kv_need import engine_site

ROLE = "default"


@record
class TrueKvNeed:
    """KV that a program needs of an engine which it has alone.

    Attributes:
        peak_tokens: Peak of its KV.
        longest_tokens: Longest context of one of its generations.
    """

    peak_tokens: float
    longest_tokens: float

    @classmethod
    def learned_from(cls, estimates: Estimates) -> TrueKvNeed:
        """The need of the one program that these estimates know."""
        (site,) = (one for one in estimates.sites() if one.site == engine_site(ROLE))
        learned = site.histograms  # the site itself answers for its parents, so few are its samples
        return cls(learned["context_tokens"].mean, learned["longest_tokens"].mean)
