"""Engines behind an OpenAI-compatible address."""

from agentrt.remote.backend import RemoteBackend

__all__ = ["RemoteBackend"]
