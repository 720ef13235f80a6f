"""Chat completions over an embedded engine: the API that plain clients speak, and nothing more.

Each request is a run of its own, first come, first served: what a program knows of what comes next
has no place in this API. `agentrt serve` starts it.
"""

from agentrt.serve.application import application
from agentrt.serve.dispatch import Service
from agentrt.serve.listener import ServeConfig, serve, serving

__all__ = ["ServeConfig", "Service", "application", "serve", "serving"]
