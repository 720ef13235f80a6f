"""OpenAI completions with token ids in and out."""

from agentrt.remote.protocols.completions.protocol import Completions

__all__ = ["Completions"]
