"""Remote engines: any server with an OpenAI-compatible API (vLLM, SGLang, llama.cpp)."""

from agentrt.remote.backend import RemoteBackend
from agentrt.remote.limits import RemoteLimits

__all__ = ["RemoteBackend", "RemoteLimits"]
