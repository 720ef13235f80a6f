"""Errors of the laboratory."""

from __future__ import annotations

from agentrt.base.errors import AgentrtError


class BenchFailed(AgentrtError):
    """Figures cannot be compared, or an arm did not work."""

    exit_code = 5
