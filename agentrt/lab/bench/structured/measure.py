"""Every case put to every library, and what only ours is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.lab.bench.structured.cases import (
    ConstraintCase,
    other_orders,
    with_whole_numbers,
    written,
)
from agentrt.lab.bench.structured.libraries import OURS, LibraryArm
from agentrt.structured.vocabulary import Alphabet

BEYOND = (1, 8, 40, 200)
"""Tokens beyond the fewest that a closing gets."""

ROWS = 64
_ROW_CASES = 8
_ROW_ROUNDS = 30
_TELL_EVERY = 50


@dataclass(slots=True)
class CaseReply:
    """What a library said of one case.

    Attributes:
        case: Which.
        answer: Of the walk: `refused`, `failed`, or `walks` and times.
        excused: By text: why a valid text that was refused is no fault, "" where it is one.
        closing: Outputs within budgets; ours only.
    """

    case: ConstraintCase
    answer: Mapping[str, Any]
    excused: dict[int, str] = field(default_factory=dict)
    closing: Mapping[str, Any] | None = None

    @property
    def compiled(self) -> bool:
        """Whether there is anything to judge."""
        return "walks" in self.answer


@dataclass(frozen=True, slots=True)
class Measured:
    """One library over one vocabulary.

    Attributes:
        library: Name.
        vocabulary: Name.
        about: What its process says of itself.
        told: By case.
        rows: Times of many masks in one call, of some cases.
    """

    library: str
    vocabulary: str
    about: Mapping[str, Any]
    told: Sequence[CaseReply]
    rows: Sequence[Mapping[str, Any]]


def measure(
    libraries: Sequence[LibraryArm],
    cases: Sequence[ConstraintCase],
    alphabet: Alphabet,
    *,
    vocabulary: str,
    closes: bool,
    tell: Callable[[str], None],
) -> list[Measured]:
    """Put each case to each library, in turns.

    Args:
        libraries: Open ones.
        cases: To be put.
        alphabet: Of the vocabulary, to spell the texts once for all.
        vocabulary: Its name.
        closes: Whether ours also writes outputs within budgets.
        tell: Called with how far it is.
    """
    told: dict[str, list[CaseReply]] = {library.name: [] for library in libraries}
    for number, case in enumerate(cases):
        if number % _TELL_EVERY == 0:
            tell(f"{vocabulary}: case {number + 1} of {len(cases)}")
        for library in libraries if number % 2 else reversed(libraries):
            one = _put(library, case, alphabet)
            if closes and library.name == OURS and one.compiled:
                one.closing = library.ask(
                    {"do": "close", **_constraint(case), "more": BEYOND, "seed": number}
                )
            told[library.name].append(one)
    return [
        Measured(
            library.name,
            vocabulary,
            library.about,
            told[library.name],
            _rows(library, cases, told[library.name], alphabet),
        )
        for library in libraries
    ]


def _put(library: LibraryArm, case: ConstraintCase, alphabet: Alphabet) -> CaseReply:
    texts = [alphabet.tokenize(one.text.encode()) for one in case.texts]
    told = CaseReply(case, library.ask({"do": "case", **_constraint(case), "texts": texts}))
    if not told.compiled:
        return told
    for at, (text, walk) in enumerate(zip(case.texts, told.answer["walks"], strict=True)):
        if text.valid and not walk["taken"]:
            told.excused[at] = _excuse(library, case, text.value, alphabet)
    return told


def _excuse(library: LibraryArm, case: ConstraintCase, value: Any, alphabet: Alphabet) -> str:
    """Why refusing a valid text is no fault; "" where it is one."""
    if case.kind in ("regex", "grammar"):
        return ""
    whole = with_whole_numbers(value)
    other_texts = [written(whole)] if written(whole) != written(value) else []
    orders = other_orders(whole)
    texts = [alphabet.tokenize(text.encode()) for text in (*other_texts, *orders)]
    answer = library.ask({"do": "case", **_constraint(case), "texts": texts}) if texts else {}
    taken = [walk["taken"] for walk in answer.get("walks", ())]
    if any(taken[: len(other_texts)]):
        return "1.0 for an integer"
    if any(taken):
        return "order of keys"
    return "format that the suite does not assert" if case.has_format else ""


def _rows(
    library: LibraryArm,
    cases: Sequence[ConstraintCase],
    told: Sequence[CaseReply],
    alphabet: Alphabet,
) -> list[Mapping[str, Any]]:
    """64 rows at the various places of one case, for the first cases that have so many."""
    if library.name not in (OURS, "xgrammar"):
        return []
    found: list[Mapping[str, Any]] = []
    for case, one in zip(cases, told, strict=True):
        if not one.compiled or sum(row["kind"] == case.kind for row in found) == _ROW_CASES:
            continue
        texts = [
            alphabet.tokenize(text.text.encode())
            for text, walk in zip(case.texts, one.answer["walks"], strict=True)
            if walk["taken"]
        ]
        if sum(map(len, texts)) < ROWS:
            continue
        asked = {"do": "rows", **_constraint(case), "texts": texts}
        answer = library.ask({**asked, "count": ROWS, "rounds": _ROW_ROUNDS})
        found.append({"case": case.name, **answer, "kind": case.kind})
    return found


def _constraint(case: ConstraintCase) -> dict[str, Any]:
    return {"kind": case.kind, "source": case.source}
