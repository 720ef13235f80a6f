"""Figures of runs and nodes as plain data; times in ms, money as exact decimal text."""

from __future__ import annotations

from typing import Any

from agentrt.base.money import exact_text
from agentrt.telemetry.node_figures import Figures, NodeFigures, RunFigures


def run_object(run: RunFigures) -> dict[str, Any]:
    """A run as data."""
    return {
        "run_id": run.run_id,
        "trace_id": run.trace_id,
        "program": run.program,
        "ok": run.error is None,
        "error": run.error,
        "compound_ms": shown_ms(run.compound_ms),
        "split_ms": {label: shown_ms(ms) for label, ms in run.split_ms.items()},
        "critical_path": list(run.path),
        "total": figures_object(run.total),
    }


def node_object(node: NodeFigures) -> dict[str, Any]:
    """A node as data."""
    return {
        "id": node.node_id,
        "name": node.name,
        "kind": node.kind,
        "site": node.site,
        "model": node.model or None,
        "start_ms": shown_ms(node.start_ms),
        **figures_object(node.figures),
        "wait_ms": {label: shown_ms(ms) for label, ms in node.wait_ms.items()},
        "critical": node.is_critical,
        "deps": list(node.deps),
        "error": node.error,
    }


def figures_object(figures: Figures) -> dict[str, Any]:
    """Figures as data."""
    return {
        "took_ms": shown_ms(figures.took_ms),
        **{f"{stage}_ms": shown_ms(ms) for stage, ms in figures.stage_ms.items()},
        "input_tokens": figures.input_tokens,
        "cached_tokens": figures.cached_tokens,
        "output_tokens": figures.output_tokens,
        "cost": _amount(figures.cost_pico) if figures.currency else None,
        "currency": figures.currency or None,
    }


def shown_ms(ms: float) -> float:
    """Milliseconds with three decimals, the resolution of a trace."""
    return round(ms, 3)


def _amount(pico: int) -> str:
    return f"{'-' if pico < 0 else ''}{exact_text(abs(pico))}"
