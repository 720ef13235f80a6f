"""Engines as configured things: their settings, the kinds of servers, and `agentrt.toml`."""

from agentrt.base.engines.remote_engine_config import RemoteEngineConfig

__all__ = ["RemoteEngineConfig"]
