"""Remote engines: any server with an OpenAI-compatible API (vLLM, SGLang, llama.cpp)."""

from agentrt.remote.backend import RemoteBackend

__all__ = ["RemoteBackend"]
