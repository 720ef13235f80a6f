"""Capabilities of the embedded engine."""

from __future__ import annotations

from agentrt.prompt import Codec
from agentrt.protocol.backend import Capabilities


def capabilities_of(
    codec: Codec, model: str, window_tokens: int, kv_tokens: int, host_kv_tokens: int
) -> Capabilities:
    """Capabilities of an engine: it supports everything in the contract."""
    return Capabilities(
        backend="embedded",
        model=model,
        prompt="tokens",
        codec=codec.fingerprint,
        window_tokens=window_tokens,
        constraints=frozenset({"json", "regex", "choice", "grammar", "calls"}),
        holes=True,
        hints=True,
        seeds=True,
        logprobs=True,
        closes=True,
        call_frame=codec.call_frame,
        kv_tokens=kv_tokens,
        host_kv_tokens=host_kv_tokens,
        thinking=codec.think_frame,
        scores=True,
        cache_salts=True,
        resumes=True,
        prefills_ahead=True,
    )
