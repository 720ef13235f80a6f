"""Several engines seen as one: what all of them can do, and what a request has used of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from agentrt.base.prices import Prices
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.step_output import End, Ledger


def joint_capabilities(every: Sequence[Capabilities], window_tokens: int) -> Capabilities:
    """Features that all engines have.

    Args:
        every: Features of each.
        window_tokens: Context length of all of them together.
    """
    enforced = frozenset.intersection(*(one.constraints for one in every))
    known = frozenset.intersection(*(one.constraints | one.checked for one in every))
    return replace(
        every[0],
        constraints=enforced,
        checked=known - enforced,
        window_tokens=window_tokens,
        seeds=all(one.seeds for one in every),
        logprobs=all(one.logprobs for one in every),
        scores=all(one.scores for one in every),
        closes=all(one.closes for one in every),
        cache_salts=all(one.cache_salts for one in every),
        prices=_dearest(every),
    )


def with_spent(end: End, spent: Iterable[Ledger]) -> End:
    """The end with what engines have used that failed the request."""
    ledger = end.ledger
    for one in spent:
        ledger = replace(
            ledger,
            retried_tokens=ledger.retried_tokens + one.output_tokens + one.retried_tokens,
            retried_prompt_tokens=ledger.retried_prompt_tokens
            + one.prompt_tokens
            + one.retried_prompt_tokens,
            cost_pico=ledger.cost_pico + one.cost_pico,
            retried_cost_pico=ledger.retried_cost_pico + one.cost_pico,
            currency=ledger.currency or one.currency,
        )
    return end if ledger is end.ledger else replace(end, ledger=ledger)


def _dearest(every: Sequence[Capabilities]) -> Prices | None:
    """The highest prices of all engines; None if those of one are not known."""
    known = [one.prices for one in every if one.prices is not None]
    return reduce(Prices.or_dearer, known) if len(known) == len(every) else None
