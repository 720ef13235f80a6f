"""Log-probabilities in a chunk of a completion: of tokens, named by their ids, and of options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.remote.protocols.answer_shape import (
    MAX_COUNT,
    Malformed,
    check_type,
    count_at,
    objects_at,
)

Json = dict[str, Any]

_PREFIX = "token_id:"
_IMPOSSIBLE = -9999.0
"""Stands for the logarithm of 0, which JSON has no number for."""

_TOLERANCE = 0.01


def read_logprobs(logprobs: Json, token_ids: tuple[int, ...]) -> tuple[TokenLogprob, ...]:
    """One entry a token, with the likeliest alternatives first.

    The token itself is among the alternatives of a server, behind as many as were asked for if it
    is not one of these. A token with none was forced.

    Args:
        logprobs: The field of the chunk.
        token_ids: The tokens of the chunk.

    Raises:
        Malformed: They are of other tokens, or no logarithms of probabilities.
    """
    for name in ("tokens", "token_logprobs"):
        check_type(logprobs, name, list)
    names, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
    tops = objects_at(logprobs, "top_logprobs")
    if not len(token_ids) == len(names) == len(values) == len(tops):
        raise Malformed(f"logprobs of {len(names)} tokens beside {len(token_ids)} token_ids")
    found = []
    for token_id, name, value, top in zip(token_ids, names, values, tops, strict=True):
        if _id_of(name) != token_id:
            raise Malformed(f"logprobs of {str(name)[:40]!r} for token {token_id}")
        found.append(TokenLogprob(token_id, _logprob(value), _likeliest(top), forced=not top))
    return tuple(found)


def read_scores(scores: Sequence[Json]) -> tuple[OptionScore, ...]:
    """The scores of the options of a choice.

    Raises:
        Malformed: They are no logarithms of probabilities.
    """
    pairs = [(_logprob(one.get("logprob")), count_at(one, "tokens")) for one in scores]
    return tuple(OptionScore(*pair) for pair in pairs)


def _likeliest(top: Json) -> tuple[tuple[int, float], ...]:
    pairs = [(_id_of(name), _logprob(value)) for name, value in top.items()]
    if sum(math.exp(value) for _, value in pairs) > 1 + _TOLERANCE:
        raise Malformed("logprobs of probabilities that add up to more than 1")
    possible = (pair for pair in pairs if pair[1] > _IMPOSSIBLE)
    return tuple(sorted(possible, key=lambda pair: -pair[1]))


def _id_of(name: object) -> int:
    digits = name.removeprefix(_PREFIX) if isinstance(name, str) else ""
    if digits == name or not (digits.isascii() and digits.isdigit() and int(digits) < MAX_COUNT):
        raise Malformed(f"logprobs of {str(name)[:40]!r}, which is no token_id")
    return int(digits)


def _logprob(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value <= _TOLERANCE:  # type: ignore[operator]  # a number
        raise Malformed(f"{str(value)[:40]} as a log-probability")
    return float(value)  # type: ignore[arg-type]  # a number
