"""Sharing of a step's draft rows: the likeliest tokens of all sequences first, while they pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def share_rows(
    chances: Sequence[Sequence[float]], cost: Callable[[int], float], limit: int
) -> list[int]:
    """Tokens of each draft that pay in one step; no other lengths are expected to gain more.

    That holds as chances fall within a draft, and costs rise with the rows before.

    Args:
        chances: For each draft, the probabilities that its tokens are accepted, in order.
        cost: Cost of a row behind so many, by what an accepted token saves.
        limit: Most rows.

    Example:
        >>> share_rows([[0.9, 0.5], [0.6]], lambda rows: 0.2 + 0.2 * rows, limit=9)
        [1, 1]
    """
    lengths = [0] * len(chances)
    likeliest = sorted(
        ((chance, owner) for owner, each in enumerate(chances) for chance in each),
        key=lambda one: -one[0],
    )
    for rows, (chance, owner) in enumerate(likeliest[: max(0, limit)]):
        if chance <= cost(rows):
            break
        lengths[owner] += 1
    return lengths
