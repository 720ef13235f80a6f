"""What `agentrt bench structured` does."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.arms.peer_files import PeerFiles, peers_root
from agentrt.lab.bench.engine.result import machine
from agentrt.lab.bench.structured.cases import ConstraintCase, cases_of
from agentrt.lab.bench.structured.figures import figures
from agentrt.lab.bench.structured.libraries import OURS, LibraryArm, check_peers
from agentrt.lab.bench.structured.measure import CaseReply, Measured, measure
from agentrt.lab.bench.structured.table import show
from agentrt.lab.bench.structured.vocabularies import vocabulary_file, vocabulary_named
from agentrt.structured.vocabulary import alphabet_of

SCHEMA = "agentrt.bench.structured/1"
_SEED = 0


@dataclass(frozen=True, slots=True)
class StructuredBench:
    """A run as asked for.

    Attributes:
        data: Folder of cases.
        vocabularies: Names.
        peers: Beside ours.
        most: Cases that are put to peers over large vocabularies, and to all where `everywhere`;
            0 puts all.
        everywhere: Whether `most` holds for everything.
        patience_s: For one case.
    """

    data: Path
    vocabularies: Sequence[str]
    peers: tuple[str, ...]
    most: int
    everywhere: bool
    patience_s: float


def run_structured_bench(
    asked: StructuredBench, *, command: Sequence[str], tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure, print the tables, and give the file's content.

    Raises:
        UsageError: Something was asked for that there is not.
        BenchFailed: A library cannot be opened.
    """
    if asked.most < 0 or asked.patience_s <= 0:
        raise UsageError("--most starts at 0 and --patience above it", hint="Raise them")
    files = PeerFiles(peers_root(), Path())
    check_peers(asked.peers, files)
    cases = cases_of(asked.data)
    few = _sample(cases, asked.most)
    found: list[Measured] = []
    for name in dict.fromkeys(asked.vocabularies):
        all_cases = few if asked.everywhere else cases
        small = name == "embedded"
        if small or asked.everywhere or not asked.peers or len(few) == len(cases):
            found += _over(name, (OURS, *asked.peers), all_cases, asked, files, tell, closes=small)
        else:
            found += _over(name, (OURS,), all_cases, asked, files, tell, closes=False)
            found += _over(name, (OURS, *asked.peers), few, asked, files, tell, closes=False)
    results = [_result(one) for one in found]
    show(results)
    return {
        "schema": SCHEMA,
        "command": list(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "asked": asdict(asked) | {"data": asked.data.name},
        "results": results,
        "samples": [_samples(one) for one in found],
    }


def _over(
    name: str,
    libraries: Sequence[str],
    cases: Sequence[ConstraintCase],
    asked: StructuredBench,
    files: PeerFiles,
    tell: Callable[[str], None],
    *,
    closes: bool,
) -> list[Measured]:
    vocab = vocabulary_named(name)
    path = vocabulary_file(vocab)
    opened: list[LibraryArm] = []
    try:
        for library in libraries:
            tell(f"{name}: opening {library}")
            opened.append(LibraryArm(library, path, files, patience_s=asked.patience_s))
        alphabet = alphabet_of(vocab)
        return measure(opened, cases, alphabet, vocabulary=name, closes=closes, tell=tell)
    finally:
        for one in opened:
            one.close()


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
        "cases": len(found.told),
        "about": dict(found.about),
        "figures": figures(found),
    }


def _samples(found: Measured) -> dict[str, Any]:
    return {
        "library": found.library,
        "vocabulary": found.vocabulary,
        "rows": [dict(row) for row in found.rows],
        "cases": [_sample_of(one) for one in found.told],
    }


def _sample_of(told: CaseReply) -> Mapping[str, Any]:
    return {
        "case": told.case.name,
        "group": told.case.group,
        "kind": told.case.kind,
        **told.answer,
        **({"excused": told.excused} if told.excused else {}),
        **({"closing": told.closing} if told.closing is not None else {}),
    }
