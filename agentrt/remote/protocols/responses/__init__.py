"""OpenAI Responses, the protocol of OpenAI's own models."""

from agentrt.remote.protocols.responses.protocol import Responses

__all__ = ["Responses"]
