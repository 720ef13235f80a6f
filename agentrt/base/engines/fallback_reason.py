"""Reasons for which another engine takes a request over."""

from __future__ import annotations

from typing import Literal, get_args

FallbackReason = Literal["down", "context_overflow", "refusal"]
"""`down`: the engine does not answer; `context_overflow`: the prompt does not fit its window;
`refusal`: the provider's filter or the model refused to answer."""

REASONS: tuple[FallbackReason, ...] = get_args(FallbackReason)

_OF_ERRORS: dict[str, FallbackReason] = {
    "EngineUnavailable": "down",
    "EngineDied": "down",
    "ContextOverflow": "context_overflow",
    "AnswerRefused": "refusal",
}


def reason_of(error_type: str) -> FallbackReason | None:
    """The reason that an error of a request is, by the name of its class; None if it is none."""
    return _OF_ERRORS.get(error_type)
