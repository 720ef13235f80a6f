"""Result of encoding a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from agentrt.base.record import record

LossReason = Literal["other_model", "template_rewrite"]


def shared_length(left: Sequence[object], right: Sequence[object]) -> int:
    """Number of equal elements at the start of both."""
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@record
class PrefixLoss:
    """Computed tokens that this prompt cannot share.

    Attributes:
        lost_tokens: Number of tokens to compute again.
        reason: `other_model`: another model wrote them. `template_rewrite`: the chat template
            writes an earlier answer differently from its generated form.
    """

    lost_tokens: int
    reason: LossReason


@record
class Encoded:
    """A prompt as token ids.

    Attributes:
        token_ids: Ids up to the first hole; as holes are filled they only grow at their end.
        complete: Whether there is no hole left; the ids then end with the generation prompt.
        losses: Earlier computation that cannot be shared, and why.
    """

    token_ids: tuple[int, ...]
    complete: bool = True
    losses: tuple[PrefixLoss, ...] = ()
