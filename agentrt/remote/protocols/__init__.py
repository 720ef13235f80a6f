"""Wire protocols of remote engines, a folder each: bodies of requests, and events of answers."""

from agentrt.remote.protocols.chat_completions import ChatCompletions
from agentrt.remote.protocols.wire_protocol import EventReader, WireProtocol, WireRequest

WIRE_PROTOCOLS: dict[str, WireProtocol] = {one.name: one for one in (ChatCompletions(),)}
"""The protocols by the names that kinds and settings give them."""

__all__ = ["WIRE_PROTOCOLS", "EventReader", "WireProtocol", "WireRequest"]
