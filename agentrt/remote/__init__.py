"""Remote engines: any server with an OpenAI-compatible API (vLLM, SGLang, llama.cpp)."""

from agentrt.remote.backend import RemoteBackend
from agentrt.remote.limits import RemoteLimits
from agentrt.remote.opening.capability_store import CapabilityStore
from agentrt.remote.opening.model_list import listed_models
from agentrt.remote.remote_engines import RemoteEngines

__all__ = ["CapabilityStore", "RemoteBackend", "RemoteEngines", "RemoteLimits", "listed_models"]
