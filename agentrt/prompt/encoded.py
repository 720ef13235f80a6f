"""What encoding a prompt gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LossReason = Literal["other_model", "template_rewrite"]


@dataclass(frozen=True, slots=True)
class PrefixLoss:
    """Tokens that a model has computed and that this prompt cannot share.

    Attributes:
        lost_tokens: How many have to be computed again.
        reason: `other_model`: another model wrote them. `template_rewrite`: the template writes an
            earlier answer otherwise than it was generated.
    """

    lost_tokens: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt as token ids.

    Attributes:
        token_ids: Up to the first hole; with more holes filled they only grow at their end.
        complete: There is no hole left; the ids end where the model goes on.
        losses: What earlier computation cannot be shared, and why.
    """

    token_ids: tuple[int, ...]
    complete: bool = True
    losses: tuple[PrefixLoss, ...] = ()
