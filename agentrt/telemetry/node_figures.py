"""Figures of a run and of its nodes, from a trace alone: times, tokens and money."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from agentrt.base.money import PICO
from agentrt.base.record import record
from agentrt.telemetry import names
from agentrt.telemetry.reading import number_of, words_of
from agentrt.telemetry.span import Attributes, Span
from agentrt.telemetry.waits import TraceNodes, length_ms

STAGES = ("queue", "grammar", "prefill", "decode", "tool")
"""Parts of a node's time that differ between two runs; `queue` includes admission control."""
_SPLIT = names.SPLIT_MS.partition("{}")


@record
class Figures:
    """Times, tokens and money of a node, or sums over nodes.

    Attributes:
        took_ms: From the last input to the end.
        stage_ms: Time by stage, for each of `STAGES`.
        input_tokens: Tokens of prompts.
        cached_tokens: Prompt tokens found in the prefix cache.
        output_tokens: Tokens produced.
        cost_pico: Cost in millionths of a millionth of the currency.
        currency: Currency; "" without prices.
    """

    took_ms: float = 0.0
    stage_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_pico: int = 0
    currency: str = ""


@record
class NodeFigures:
    """One node of a run.

    Attributes:
        node_id: Path in the run.
        name: Name.
        kind: Kind of node.
        site: `file:line` of its call.
        start_ms: Arrival of its last input, since the run began.
        wait_ms: Parts of its time by label, as `agentrt trace show` names them.
        figures: Times, tokens and money.
        is_critical: Whether the critical path goes through it.
        deps: Nodes with values that it needed.
        model: Model of a generation; "" otherwise.
        error: Failure, or None.
    """

    node_id: str
    name: str
    kind: str
    site: str
    start_ms: float
    wait_ms: dict[str, float]
    figures: Figures
    is_critical: bool
    deps: tuple[str, ...] = ()
    model: str = ""
    error: str | None = None


@record
class RunFigures:
    """A run as a whole.

    Attributes:
        run_id: Id of the run; "" in a trace of something else.
        trace_id: Trace id.
        program: Program, as `file:function`.
        compound_ms: From submit to result.
        split_ms: Parts of the critical path by label; they sum to `compound_ms`.
        path: Nodes of the critical path, in order.
        total: Sums over all nodes with work of their own.
        error: Failure of the run, or None.
    """

    run_id: str
    trace_id: str
    program: str
    compound_ms: float
    split_ms: dict[str, float]
    path: tuple[str, ...]
    total: Figures
    error: str | None = None


def run_figures(trace_id: str, trace: TraceNodes) -> RunFigures:
    """Figures of the run with this trace."""
    tags = trace.root.attributes
    before, _, after = _SPLIT
    split_ms = {
        name.removeprefix(before).removesuffix(after): number_of(tags, name)
        for name in tags
        if name.startswith(before) and name.endswith(after)
    }
    leaves = (node_figures(trace, span) for span in trace.nodes.values())
    return RunFigures(
        run_id=str(tags.get(names.RUN_ID, "")),
        trace_id=trace_id,
        program=str(tags.get(names.PROGRAM, "")),
        compound_ms=number_of(tags, names.COMPOUND_MS),
        split_ms=split_ms,
        path=words_of(tags, names.PATH_NODES),
        total=sum_of(node.figures for node in leaves if node.kind != "program"),
        error=trace.root.error,
    )


def node_figures(trace: TraceNodes, span: Span) -> NodeFigures:
    """Figures of the node with this span."""
    tags = span.attributes
    kind = str(tags[names.NODE_KIND])
    wait_ms = {wait.label: wait.ms for wait in trace.waits(span)}
    return NodeFigures(
        node_id=str(tags[names.NODE_ID]),
        name=str(tags.get(names.NODE_NAME, "")),
        kind=kind,
        site=str(tags.get(names.NODE_SITE, "")),
        start_ms=trace.start_ms(span),
        wait_ms=wait_ms,
        figures=_figures(tags, length_ms(span), wait_ms),
        is_critical=bool(tags.get(names.CRITICAL)),
        deps=words_of(tags, names.NODE_DEPS),
        model=str(tags.get(names.RESPONSE_MODEL, "")),
        error=span.error,
    )


def _figures(tags: Attributes, took_ms: float, wait_ms: dict[str, float]) -> Figures:
    stage_ms = {stage: wait_ms.get(stage, 0.0) for stage in STAGES}
    stage_ms["queue"] += wait_ms.get("gate", 0.0)
    # The root has the sums of its run; here a program has nothing but its time.
    is_leaf = tags[names.NODE_KIND] != "program"
    return Figures(
        took_ms=took_ms,
        stage_ms=stage_ms,
        input_tokens=int(number_of(tags, names.INPUT_TOKENS)),
        cached_tokens=int(number_of(tags, names.CACHED_TOKENS)),
        output_tokens=int(number_of(tags, names.OUTPUT_TOKENS)),
        cost_pico=round(number_of(tags, names.COST) * PICO) if is_leaf else 0,
        currency=str(tags.get(names.COST_CURRENCY, "")) if is_leaf else "",
    )


def sum_of(figures: Iterable[Figures]) -> Figures:
    """Sums over nodes; their times overlap, so `took_ms` may exceed the run's."""
    found = tuple(figures)
    return Figures(
        took_ms=sum(one.took_ms for one in found),
        stage_ms={stage: sum(one.stage_ms[stage] for one in found) for stage in STAGES},
        input_tokens=sum(one.input_tokens for one in found),
        cached_tokens=sum(one.cached_tokens for one in found),
        output_tokens=sum(one.output_tokens for one in found),
        cost_pico=sum(one.cost_pico for one in found),
        currency=next((one.currency for one in found if one.currency), ""),
    )
