"""The deadline that an engine gets with a generation."""

from __future__ import annotations

from typing import Any

from agentrt.program import Gen
from agentrt.program.scope import sooner

MARGIN_S = 0.25
MARGIN_FRACTION = 0.1


def engine_deadline_s(node: Gen[Any], now_s: float) -> float | None:
    """The deadline of the engine.

    It is a little early if the engine has to close its output, and a little late if not: then the
    runtime ends the node itself, with an error that shows what took the time.
    """
    own_s, scopes_s = node.work.deadline_at_s, node.scope.deadline_at_s
    if own_s is None and scopes_s is None:
        return None
    deadline_at_s = sooner(own_s, scopes_s)
    assert deadline_at_s is not None
    if node.work.on_limit == "raise":
        return deadline_at_s + MARGIN_S
    left_s = max(0.0, deadline_at_s - now_s)
    return deadline_at_s - min(MARGIN_S, MARGIN_FRACTION * left_s)
