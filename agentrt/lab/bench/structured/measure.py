"""Every case on every library, and what only ours can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.bench.structured.cases import (
    ConstraintCase,
    other_orders,
    with_whole_numbers,
    written,
)
from agentrt.lab.bench.structured.libraries import LibraryArm
from agentrt.lab.progress import WorkPace
from agentrt.structured.vocabulary import Alphabet

BEYOND = (1, 8, 40, 200)
"""Budgets of closings, as tokens beyond the fewest."""

SMALL = "embedded"
"""Vocabulary over which our library also writes outputs within budgets."""
ROWS = 64
_ROW_CASES = 8
_ROW_ROUNDS = 30


@dataclass(slots=True)
class CaseReply:
    """Answers of a library about one case.

    Attributes:
        case: The case.
        answer: Answer of the walks: `refused`, `failed`, or `walks` and times.
        excused: By text: the reason why refusing a valid text is no fault, "" if it is one.
        closing: Outputs within budgets; ours only.
    """

    case: ConstraintCase
    answer: Mapping[str, Any]
    excused: dict[int, str] = field(default_factory=dict)
    closing: Mapping[str, Any] | None = None

    @property
    def compiled(self) -> bool:
        """True if there are walks to judge."""
        return "walks" in self.answer


@record
class Measured:
    """One library over one vocabulary.

    Attributes:
        library: Name of the library.
        vocabulary: Name of the vocabulary.
        about: Description that its process gave.
        replies: Answers by case.
        rows: Times of many masks in one call, for some cases.
    """

    library: str
    vocabulary: str
    about: Mapping[str, Any]
    replies: Sequence[CaseReply]
    rows: Sequence[Mapping[str, Any]]


def measure(
    libraries: Sequence[LibraryArm],
    cases: Sequence[ConstraintCase],
    alphabet: Alphabet,
    *,
    vocabulary: str,
) -> list[Measured]:
    """Put each case to each library; the libraries take turns.

    Args:
        libraries: Opened libraries.
        cases: The cases.
        alphabet: Alphabet of the vocabulary, which spells the texts once for all.
        vocabulary: Name of the vocabulary.
    """
    replies: dict[str, list[CaseReply]] = {library.name: [] for library in libraries}
    pace = WorkPace(f"cases over {vocabulary}", len(cases))
    for number, case in enumerate(cases):
        for library in libraries if number % 2 else reversed(libraries):
            reply = _put(library, case, alphabet)
            if vocabulary == SMALL and library.name == OURS and reply.compiled:
                budgets = {"more": BEYOND, "seed": number}
                reply.closing = library.ask("closings", **_constraint(case), **budgets)
            replies[library.name].append(reply)
        pace.done()
    return [
        Measured(
            library.name,
            vocabulary,
            library.about,
            replies[library.name],
            _rows(library, replies[library.name], alphabet),
        )
        for library in libraries
    ]


def _put(library: LibraryArm, case: ConstraintCase, alphabet: Alphabet) -> CaseReply:
    texts = [alphabet.tokenize(one.text.encode()) for one in case.texts]
    reply = CaseReply(case, library.ask("case", **_constraint(case), texts=texts))
    for at, walk in enumerate(reply.answer.get("walks", ())):
        if case.texts[at].valid and not walk["taken"]:
            reply.excused[at] = _excuse(library, case, case.texts[at].value, alphabet)
    return reply


def _excuse(library: LibraryArm, case: ConstraintCase, value: Any, alphabet: Alphabet) -> str:
    """The reason why refusing a valid text is no fault; "" if it is one."""
    if case.kind in ("regex", "grammar"):
        return ""
    whole = with_whole_numbers(value)
    other_texts = [written(whole)] if written(whole) != written(value) else []
    texts = [alphabet.tokenize(text.encode()) for text in (*other_texts, *other_orders(whole))]
    answer = library.ask("case", **_constraint(case), texts=texts) if texts else {}
    taken = [walk["taken"] for walk in answer.get("walks", ())]
    if any(taken[: len(other_texts)]):
        return "1.0 for an integer"
    if any(taken):
        return "order of keys"
    return "format that the suite does not assert" if case.has_format else ""


def _rows(
    library: LibraryArm, replies: Sequence[CaseReply], alphabet: Alphabet
) -> list[Mapping[str, Any]]:
    """64 rows at various prefixes of one case, for the first cases that have so many."""
    if library.name not in (OURS, "xgrammar"):
        return []
    found: list[Mapping[str, Any]] = []
    for reply in replies:
        case = reply.case
        if not reply.compiled or sum(row["kind"] == case.kind for row in found) == _ROW_CASES:
            continue
        texts = [
            alphabet.tokenize(text.text.encode())
            for text, walk in zip(case.texts, reply.answer["walks"], strict=True)
            if walk["taken"]
        ]
        if sum(map(len, texts)) >= ROWS:
            size = {"count": ROWS, "rounds": _ROW_ROUNDS}
            answer = library.ask("rows", **_constraint(case), texts=texts, **size)
            found.append({"case": case.name, **answer, "kind": case.kind})
    return found


def _constraint(case: ConstraintCase) -> dict[str, Any]:
    return {"kind": case.kind, "source": case.source}
