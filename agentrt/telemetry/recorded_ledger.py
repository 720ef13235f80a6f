"""The account of a generation, read back from the attributes of its span."""

from __future__ import annotations

from typing import cast, get_args

from agentrt.base.money import PICO
from agentrt.protocol.events import Outcome
from agentrt.protocol.step_output import DraftCount, DraftSource, Ledger
from agentrt.telemetry import names
from agentrt.telemetry.reading import number_of
from agentrt.telemetry.span import Attributes


def ledger_of(tags: Attributes, outcome: Outcome) -> Ledger:
    """The ledger of a generation, without its instants.

    Args:
        tags: Attributes of its span.
        outcome: Kind of its end.
    """

    def count(name: str) -> int:
        return int(number_of(tags, name))

    def seconds(name: str) -> float:
        return number_of(tags, name) / 1e3

    drafts = [
        DraftCount(
            source,
            count(names.DRAFT_ACCEPTED.format(source)),
            count(names.DRAFT_REJECTED.format(source)),
        )
        for source in cast(tuple[DraftSource, ...], get_args(DraftSource))
    ]
    discarded_pico = round(number_of(tags, names.COST_DISCARDED) * PICO)
    saved_pico = round(number_of(tags, names.COST_SAVED) * PICO)
    return Ledger(
        queue_s=seconds(names.STAGE_MS.format("queue")),
        kv_reload_s=seconds(names.STAGE_MS.format("kv_reload")),
        prefill_s=seconds(names.STAGE_MS.format("prefill")),
        decode_s=seconds(names.STAGE_MS.format("decode")),
        constraint_s=seconds(names.STAGE_MS.format("constraint")),
        prompt_tokens=count(names.INPUT_TOKENS),
        cached_tokens=count(names.CACHED_TOKENS),
        recomputed_tokens=count(names.RECOMPUTED),
        prefill_chunks=count(names.PREFILL_CHUNKS),
        output_tokens=count(names.OUTPUT_TOKENS),
        forced_tokens=count(names.FORCED),
        preemptions=count(names.PREEMPTED),
        thinking_tokens=count(names.REASONING_TOKENS),
        retried_tokens=count(names.RETRIED),
        drafts=tuple(one for one in drafts if one.accepted_tokens or one.rejected_tokens),
        ahead_tokens=count(names.PREFILL_AHEAD),
        warmed_tokens=count(names.PREFILL_WARMED),
        cost_pico=round(number_of(tags, names.COST) * PICO),
        retried_cost_pico=discarded_pico if outcome != "cancelled" else 0,
        currency=str(tags.get(names.COST_CURRENCY, "")),
        is_cached=tags.get(names.RESPONSE_CACHE) == "hit",
        saved_pico=saved_pico,
        expert_hits=count(names.EXPERT_HITS),
        expert_misses=count(names.EXPERT_MISSES),
        expert_tokens=expert_tokens_of(str(tags.get(names.EXPERT_TOKENS, ""))),
    )


def expert_tokens_of(text: str) -> tuple[tuple[int, ...], ...]:
    """Tokens by layer and expert, of their text; () of a text that is not theirs.

    Example:
        >>> expert_tokens_of("4,0;1,3")
        ((4, 0), (1, 3))
    """
    try:
        layers = tuple(tuple(map(int, layer.split(","))) for layer in text.split(";") if layer)
    except ValueError:
        return ()
    return layers if len({len(layer) for layer in layers}) == 1 else ()
