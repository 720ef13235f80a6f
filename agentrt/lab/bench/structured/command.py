"""`agentrt bench structured`: what compiles, what is let through, what a mask costs."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.vocabulary_file import vocabulary_file
from agentrt.lab.bench.flags import StructuredFlags
from agentrt.lab.bench.structured.beside import lines_of, masks_beside
from agentrt.lab.bench.structured.cases import ConstraintCase, cases_of
from agentrt.lab.bench.structured.figures import figures
from agentrt.lab.bench.structured.libraries import PEERS, LibraryArm
from agentrt.lab.bench.structured.measure import SMALL, CaseReply, Measured, measure
from agentrt.lab.bench.structured.table import show
from agentrt.lab.bench.structured.vocabularies import NAMES, vocabulary_named
from agentrt.lab.bench.text_table import wide_console
from agentrt.lab.flags import check_known, names
from agentrt.lab.path_rules import output_file
from agentrt.lab.progress import log
from agentrt.lab.result_file import header, machine, write_json, write_text
from agentrt.structured.vocabulary import alphabet_of

SCHEMA = "agentrt.bench.structured/1"
_SEED = 0


def run_structured_bench(flags: StructuredFlags) -> None:
    """Measure, print the tables, and write the files.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: A library cannot be opened.
    """
    check_known("--vocabulary", names(flags.vocabulary), NAMES)
    if flags.json_path is not None:
        output_file(samples_path(flags.json_path), "--json")
    check_known("--peer", flags.peers, PEERS)
    peer_files().check(*flags.peers)
    cases = cases_of(flags.data)
    few = _sample(cases, flags.most)
    if flags.masks:
        return _compare_masks(few if flags.quick else cases, flags)
    found: list[Measured] = []
    for name in names(flags.vocabulary):
        chosen = few if flags.quick else cases
        if name == SMALL or flags.quick or not flags.peers or len(few) == len(cases):
            found += _over(name, (OURS, *flags.peers), chosen, flags)
        else:
            found += _over(name, (OURS,), chosen, flags)
            found += _over(name, (OURS, *flags.peers), few, flags)
    results = [_result(one) for one in found]
    show(results)
    if flags.json_path is not None:
        _write(flags, flags.json_path, results, found)


def _compare_masks(cases: Sequence[ConstraintCase], flags: StructuredFlags) -> None:
    """Measure masks beside those of llguidance alone, and print the figures."""
    results: list[dict[str, Any]] = []
    for name in names(flags.vocabulary):
        vocab = vocabulary_named(name)
        with ExitStack() as stack:
            arm = LibraryArm(OURS, vocabulary_file(vocab), patience_s=flags.patience)
            stack.callback(arm.close)
            results.append({"vocabulary": name, **masks_beside(arm, cases, alphabet_of(vocab))})
        for line in lines_of(name, {k: v for k, v in results[-1].items() if k != "vocabulary"}):
            wide_console(160).print(line, highlight=False)
    if flags.json_path is not None:
        asked = {"data": flags.data.name, "masks": True, "everywhere": flags.quick}
        whole = {**header(SCHEMA), "machine": machine(), "asked": asked, "results": results}
        write_json(flags.json_path, whole)


def _over(
    name: str,
    libraries: Sequence[str],
    cases: Sequence[ConstraintCase],
    flags: StructuredFlags,
) -> list[Measured]:
    vocab = vocabulary_named(name)
    path = vocabulary_file(vocab)
    opened: list[LibraryArm] = []
    with ExitStack() as stack:
        for library in libraries:
            log(f"{name}: opening {library}")
            opened.append(LibraryArm(library, path, patience_s=flags.patience))
            stack.callback(opened[-1].close)
        return measure(opened, cases, alphabet_of(vocab), vocabulary=name)


def _sample(cases: Sequence[ConstraintCase], most: int) -> Sequence[ConstraintCase]:
    """So many cases, the same ones each time, in their order; all for 0."""
    if not most or most >= len(cases):
        return cases
    chosen = random.Random(_SEED).sample(range(len(cases)), most)
    return [cases[at] for at in sorted(chosen)]


def _result(found: Measured) -> dict[str, Any]:
    return {
        "library": found.library,
        "vocabulary": found.vocabulary,
        "cases": len(found.replies),
        "about": dict(found.about),
        "figures": figures(found),
    }


def _write(
    flags: StructuredFlags,
    path: Path,
    results: Sequence[Mapping[str, Any]],
    found: Sequence[Measured],
) -> None:
    """Write the figures, and every sample beside them."""
    asked = {
        "data": flags.data.name,
        "vocabularies": names(flags.vocabulary),
        "peers": flags.peers,
        "most": flags.most,
        "everywhere": flags.quick,
        "patience_s": flags.patience,
    }
    write_json(path, {**header(SCHEMA), "machine": machine(), "asked": asked, "results": results})
    samples = (
        {
            "library": one.library,
            "vocabulary": one.vocabulary,
            "rows": [dict(row) for row in one.rows],
            "cases": [_sample_of(reply) for reply in one.replies],
        }
        for one in found
    )
    lines = (json.dumps(one, separators=(",", ":")) + "\n" for one in samples)
    write_text(samples_path(path), "".join(lines))


def samples_path(path: Path) -> Path:
    """The file of all samples, beside that of the figures."""
    return path.with_suffix(".samples.jsonl")


def _sample_of(reply: CaseReply) -> Mapping[str, Any]:
    return {
        "case": reply.case.name,
        "group": reply.case.group,
        "kind": reply.case.kind,
        **reply.answer,
        **({"excused": reply.excused} if reply.excused else {}),
        **({"closing": reply.closing} if reply.closing is not None else {}),
    }
