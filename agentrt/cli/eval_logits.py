"""`agentrt eval --logits TEXT`: the logits of configurations over one text, held together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.cli.eval_output import write_report


def evaluate_logits(
    text: Path,
    configs: str,
    *,
    chunk_tokens: int,
    limit: int,
    seed: int,
    fail_if: Sequence[str],
    json_file: Path | None,
    html_file: Path | None,
) -> int:
    """Score a text under several configurations of the embedded engine, and report.

    Args:
        text: The text.
        configs: The configurations, with commas between them; the first is the reference.
        chunk_tokens: Tokens of a chunk.
        limit: Only the first chunks; 0 is all.
        seed: Seed of the intervals.
        fail_if: Limits.
        json_file: File for the figures, or None.
        html_file: File for a page, or None.

    Returns:
        Exit code.

    Raises:
        UsageError: A configuration, a limit or the text does not fit.
        ModelInvalid: A model cannot be loaded.
    """
    from agentrt import embedded
    from agentrt.base.engines.engine_file import engine_file
    from agentrt.lab.evaluation.engine_choice import read_configs
    from agentrt.lab.evaluation.limit import COMPARED, LOGIT_FIGURES, parse_limit
    from agentrt.lab.evaluation.logit_report import LogitReport
    from agentrt.lab.evaluation.logit_runs import score_text
    from agentrt.lab.evaluation.logit_summary import crossed_logits, summarise_logits

    limits = [parse_limit(one, LOGIT_FIGURES) for one in fail_if]
    chosen = read_configs(configs, engine_file(os.environ), embedded.path())
    for one in limits:
        if (one.relative or one.figure in COMPARED) and len(chosen) < 2:
            raise UsageError(
                f"--fail-if {one.text!r} compares with the first configuration",
                hint="name two with --configs A,B",
            )
    scores = score_text(text, chosen, chunk_tokens, limit=limit)
    summaries = summarise_logits(scores, seed)
    crossed = crossed_logits(summaries, limits)
    report = LogitReport(text.name, chunk_tokens, summaries, crossed, seed)
    return write_report(report, json_file, html_file)
