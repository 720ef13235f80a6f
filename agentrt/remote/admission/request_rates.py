"""Rates of an engine from its settings, and the tokens that a request counts for."""

from __future__ import annotations

import math
from typing import Any

from agentrt.base.engines.engine_kind import engine_kind
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.program.prompt_size import BYTES_A_TOKEN
from agentrt.remote.admission.request_pacer import HOSTED_WINDOW, RequestPacer

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def pacer_of(engine: RemoteEngineConfig) -> RequestPacer:
    """The pacer that the settings of an engine ask for."""
    return RequestPacer(
        engine.concurrency,
        engine.requests_per_minute,
        engine.tokens_per_minute,
        HOSTED_WINDOW if engine_kind(engine.kind).is_hosted else math.inf,
    )


def needed_tokens(body: dict[str, Any], body_bytes: int) -> float:
    """Tokens that a request may take: its prompt or its size, and the limit of its output."""
    limit = next((body[name] for name in _LIMITS if name in body), 0)
    return (len(body["prompt"]) if "prompt" in body else body_bytes / BYTES_A_TOKEN) + limit
