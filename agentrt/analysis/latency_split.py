"""Split of the compound latency: one label for every instant of the critical path."""

from __future__ import annotations

from agentrt.analysis.causes import Causes
from agentrt.analysis.critical_path import PathStep, critical_path
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.stage import LABELS, Label, Stage
from agentrt.analysis.stages import stages
from agentrt.base.record import record

TOLERANCE_S = 1e-6


@record
class Split:
    """Seconds of the critical path by cause; they sum to `compound_s`.

    Attributes:
        compound_s: From submit to result.
        admission: Held back by admission control, of the run or of one request.
        cache: Looking responses up, and waiting for another process that computed one.
        queue: Waiting for a busy engine or a tool worker.
        kv_reload: Loading KV back from the offload tier.
        prefill: Computing prompts.
        decode: Producing tokens.
        constraint: Compiling grammars and waiting for grammar bitmasks.
        tool: Tools at work, their retries, and questions to a person.
        orchestration: The program's own code, and the runtime between program and engine.
        network: On the way to and from a remote engine.
        unattributed: Without any event or ledger.
    """

    compound_s: float
    admission: float = 0.0
    cache: float = 0.0
    queue: float = 0.0
    kv_reload: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    constraint: float = 0.0
    tool: float = 0.0
    orchestration: float = 0.0
    network: float = 0.0
    unattributed: float = 0.0

    def parts(self) -> dict[Label, float]:
        """Seconds by label, in a fixed order."""
        return {label: getattr(self, label) for label in LABELS}


def split(
    record: RunRecord, path: tuple[PathStep, ...] | None = None, causes: Causes | None = None
) -> Split:
    """The split of a finished run.

    Args:
        record: The run.
        path: Critical path of the record, if already known.
        causes: Causes of the same record, if already known.
    """
    causes = causes or Causes(record)
    parts: dict[Label, float] = dict.fromkeys(LABELS, 0.0)
    for step in path if path is not None else critical_path(record, causes):
        whole = _label_of(record, step)
        if whole is not None:
            parts[whole] += step.length_s
            continue
        for stage in stages(record, record.nodes[step.node_id], causes):
            for label, seconds in stage.within(step.started_at_s, step.ended_at_s):
                parts[label] += seconds
    found = Split(record.compound_s, **parts)
    assert abs(sum(parts.values()) - found.compound_s) <= TOLERANCE_S + 1e-9 * found.compound_s
    return found


def path_stages(
    record: RunRecord, path: tuple[PathStep, ...] | None = None, causes: Causes | None = None
) -> tuple[Stage, ...]:
    """Stages of the critical path from submit to result, without gap.

    Args:
        record: The run.
        path: Critical path of the record, if already known.
        causes: Causes of the same record, if already known.
    """
    causes = causes or Causes(record)
    found: list[Stage] = []
    for step in path if path is not None else critical_path(record, causes):
        found += step_stages(record, step, causes)
    return tuple(found)


def step_stages(record: RunRecord, step: PathStep, causes: Causes) -> tuple[Stage, ...]:
    """Stages of one step of the critical path."""
    if step.length_s <= 0.0:
        return ()
    whole = _label_of(record, step)
    if whole is not None:
        return (Stage(whole, step.started_at_s, step.ended_at_s),)
    own = stages(record, record.nodes[step.node_id], causes)
    parts = (stage.clipped(step.started_at_s, step.ended_at_s) for stage in own)
    return tuple(part for part in parts if part is not None)


def _label_of(record: RunRecord, step: PathStep) -> Label | None:
    """Label of a step that is all of one kind; None if the stages of its node tell."""
    if step.part == "submit":
        return "admission"
    # A program has other steps only until it ends after a cancellation.
    if step.part == "code" or record.nodes[step.node_id].kind == "program":
        return "orchestration"
    return None
