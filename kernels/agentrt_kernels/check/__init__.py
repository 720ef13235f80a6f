"""Whether a set of kernels is right on this machine, and how fast: facts, no verdict."""

from agentrt_kernels.check.run import run

__all__ = ["run"]
