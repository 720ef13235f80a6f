"""Chat completions over an embedded engine: the API that plain clients speak, and nothing more.

Each request is a run of its own, first come, first served: what a program knows of what comes next
has no place in this API. `agentrt serve` starts it.
"""

from agentrt.server.application import application
from agentrt.server.serve import ServeConfig, serve, serving
from agentrt.server.service import Service

__all__ = ["ServeConfig", "Service", "application", "serve", "serving"]
