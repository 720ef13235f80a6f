"""Capabilities of the embedded engine."""

from __future__ import annotations

from agentrt.base.config import EngineConfig
from agentrt.prompt import Codec
from agentrt.protocol.backend import Capabilities


def capabilities_of(
    codec: Codec,
    model: str,
    window_tokens: int,
    config: EngineConfig,
    pages: int,
    host_pages: int,
    page_bytes: int,
) -> Capabilities:
    """Capabilities of an engine: it supports everything in the contract.

    Args:
        codec: Codec of the model.
        model: Name of the model.
        window_tokens: Context length.
        config: Settings of the engine, with all sizes.
        pages: KV pages on the device.
        host_pages: KV pages of the offload tier.
        page_bytes: Bytes of a KV page on the device.
    """
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
        kv_tokens=pages * config.page_tokens,
        host_kv_tokens=host_pages * config.page_tokens,
        page_tokens=config.page_tokens,
        slots=config.max_running,
        thinking=codec.think_frame,
        scores=True,
        cache_salts=True,
        resumes=True,
        prefills_ahead=True,
        kv_bytes=pages * page_bytes,
        adapters=tuple(one.name for one in config.adapters),
    )
