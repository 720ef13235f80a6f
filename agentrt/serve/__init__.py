"""Chat completions over a runtime: the API that plain clients speak, and nothing more.

Each request is a run of one generation, so that admission control, fair share, coalescing,
estimates and traces are those of programs. `agentrt serve` starts it.
"""

from agentrt.serve.api_keys import ApiKey
from agentrt.serve.application import Application
from agentrt.serve.listener import ServeConfig, serve, serving
from agentrt.serve.request_spans import RequestSpans
from agentrt.serve.served_model import ServedModel

__all__ = [
    "ApiKey",
    "Application",
    "RequestSpans",
    "ServeConfig",
    "ServedModel",
    "serve",
    "serving",
]
