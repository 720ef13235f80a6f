"""How many schemas compile, and how right the verdicts are: suite and real schemas.

Run as `python -m tests.structured.schema_table [--suite FILE] [--refusals]`. An instance is a
value, not a text: to JSON Schema 1.0 is 1, and an object has no order. A valid instance is refused
if none of its writings passes the masks. An invalid one is accepted if any of them passes; `handed
on` counts those that pass the check of the value, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrt import embedded
from agentrt.base import canonical_json
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.base.vocabulary import Vocab
from agentrt.prompt import Codec
from agentrt.structured import (
    CompiledConstraint,
    Shape,
    checked_schema_shape,
    compile_constraint,
    json_schema_shape,
)
from agentrt.structured.vocabulary import alphabet_of

HERE = Path(__file__).parent
REAL = HERE / "real_schemas" / "schemas.jsonl"
SUITE = HERE / "data" / "suite_cases.jsonl"
MAX_WRITINGS = 24
"""Maximum number of texts of one instance to try, in each notation of whole numbers."""

MAX_FLOAT = 2**53
"""Largest integer up to which floats have all."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A schema with instances of known validity."""

    name: str
    schema: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]


@dataclass(slots=True)
class Counts:
    """What came of the schemas of one set, declared in one way."""

    schemas: int = 0
    compiled: int = 0
    valid: int = 0
    valid_refused: int = 0
    invalid: int = 0
    invalid_accepted: int = 0
    handed_on: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        share = f"{self.compiled}/{self.schemas} {100 * self.compiled / self.schemas:.1f} %"
        return (
            f"{name:16} {share:>16} {self.valid_refused:>6}/{self.valid:<5} "
            f"{self.invalid_accepted:>6}/{self.invalid:<5} {self.handed_on:>6}"
        )


def read_lines(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_text(encoding="utf-8").strip().split("\n"))


def real_subjects(path: Path = REAL) -> list[Subject]:
    return [
        Subject(row["id"], row["schema"], tuple(row["valid"]), tuple(row["invalid"]))
        for row in read_lines(path)
    ]


def suite_subjects(path: Path = SUITE) -> list[Subject]:
    """The required part of the suite, one subject a schema."""
    groups: dict[str, list[Any]] = {}
    for row in read_lines(path):
        if not row["id"].startswith("optional/"):
            groups.setdefault(canonical_json.dumps(row["schema"]), []).append(row)
    return [
        Subject(
            rows[0]["id"],
            rows[0]["schema"],
            tuple(row["instance"] for row in rows if row["valid"]),
            tuple(row["instance"] for row in rows if not row["valid"]),
        )
        for rows in groups.values()
    ]


def writings(instance: Any) -> Iterator[str]:
    """Texts of an instance: in all orders, whole numbers as given, as integers, or as floats."""
    alike = (instance, _with_whole(instance, int), _with_whole(instance, float))
    found = [itertools.islice(_orders(value), MAX_WRITINGS) for value in alike]
    return iter(dict.fromkeys(map(canonical_json.dumps, itertools.chain(*found))))


def _with_whole(value: Any, notation: Callable[[Any], Any]) -> Any:
    match value:
        case bool():
            return value
        case int() if abs(value) > MAX_FLOAT:
            return value
        case int() | float() if value == int(value):
            return notation(value)
        case list():
            return [_with_whole(one, notation) for one in value]
        case dict():
            return {name: _with_whole(one, notation) for name, one in value.items()}
    return value


def _orders(value: Any) -> Iterator[Any]:
    """A value with its fields in all orders."""
    match value:
        case list():
            yield from map(list, itertools.product(*map(_some_orders, value)))
        case dict():
            for order in itertools.permutations(value):
                for children in itertools.product(*(_some_orders(value[name]) for name in order)):
                    yield dict(zip(order, children, strict=True))
        case _:
            yield value


def _some_orders(value: Any) -> list[Any]:
    return list(itertools.islice(_orders(value), MAX_WRITINGS))


def accepts(constraint: CompiledConstraint, vocab: Vocab, instance: Any) -> str | None:
    """A text of an instance that the constraint lets pass as a whole; None if there is none."""
    return next((text for text in writings(instance) if passes(constraint, vocab, text)), None)


def passes(constraint: CompiledConstraint, vocab: Vocab, text: str) -> bool:
    """Whether a constraint lets a text pass as a whole."""
    ids = alphabet_of(vocab).tokenize(text.encode())
    state = constraint.start()
    try:
        return state.advance(ids) == len(ids) and state.can_stop()
    except ConstraintError:
        return False  # too ambiguous to go on: a refusal that comes late


def measure(subjects: Iterable[Subject], declare: Callable[[Any], Shape], vocab: Vocab) -> Counts:
    """Declare and compile each schema, and walk its instances."""
    counts = Counts()
    for subject in subjects:
        counts.schemas += 1
        try:
            shape = declare(subject.schema)
            assert shape.spec is not None
            constraint = compile_constraint(shape.spec, vocab, JSON_ARRAY_FRAME)
        except ConstraintError as error:
            counts.refusals[error.keyword or error.message.split(":")[0][:40]] += 1
            counts.notes.append(f"{subject.name}: {error.message[:160]}")
            continue
        counts.compiled += 1
        _walk(subject, shape, constraint, vocab, counts)
    return counts


def _walk(
    subject: Subject, shape: Shape, constraint: CompiledConstraint, vocab: Vocab, counts: Counts
) -> None:
    for instance in subject.valid:
        counts.valid += 1
        text = accepts(constraint, vocab, instance)
        if text is None or not _is_read(shape, text):
            counts.valid_refused += 1
            counts.notes.append(f"{subject.name}: refuses {json.dumps(instance)[:300]}")
    for instance in subject.invalid:
        counts.invalid += 1
        text = accepts(constraint, vocab, instance)
        if text is not None:
            counts.invalid_accepted += 1
            handed_on = _is_read(shape, text)
            counts.handed_on += handed_on
            if handed_on:
                counts.notes.append(f"{subject.name}: hands on {text[:300]}")


def _is_read(shape: Shape, text: str) -> bool:
    try:
        shape.parse(text)
    except ValueError:
        return False
    return True


def main() -> None:
    """Print the table."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--suite", type=Path, default=SUITE)
    flags.add_argument("--refusals", action="store_true", help="print what is refused")
    asked = flags.parse_args()
    vocab = Codec.load(embedded.path()).vocab
    print(f"{'':16} {'compiled':>16} {'valid refused':>12} {'invalid taken':>13} {'handed on':>9}")
    sets = {"suite": suite_subjects(asked.suite), "real": real_subjects()}
    for name, subjects in sets.items():
        for way, declare in (("", json_schema_shape), (", checked", checked_schema_shape)):
            counts = measure(subjects, declare, vocab)
            print(counts.row(name + way), dict(counts.refusals.most_common(6)), flush=True)
            if asked.refusals:
                print(*(f"    {note}" for note in counts.notes), sep="\n")


if __name__ == "__main__":
    main()
