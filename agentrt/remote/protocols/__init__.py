"""Wire protocols of remote engines, a folder each: bodies of requests, and events of answers."""

from agentrt.remote.protocols.chat_completions import ChatCompletions
from agentrt.remote.protocols.completions import Completions
from agentrt.remote.protocols.messages import Messages
from agentrt.remote.protocols.responses import Responses
from agentrt.remote.protocols.wire_protocol import EventReader, WireProtocol, WireRequest

_ALL: tuple[WireProtocol, ...] = (ChatCompletions(), Responses(), Messages(), Completions())

WIRE_PROTOCOLS = {one.name: one for one in _ALL}
"""The protocols by the names that kinds and settings give them."""

__all__ = ["WIRE_PROTOCOLS", "EventReader", "WireProtocol", "WireRequest"]
