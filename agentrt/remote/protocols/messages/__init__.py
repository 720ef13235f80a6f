"""Anthropic Messages, the protocol of Claude."""

from agentrt.remote.protocols.messages.protocol import Messages

__all__ = ["Messages"]
