"""A suite: a folder with `suite.toml`, which names a program, its cases and how they are scored."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.judge import KIND, Judge, read_judge
from agentrt.lab.evaluation.scorer import CaseScorer, read_scorer

FILE = "suite.toml"
_KEYS = ("program", "cases", "format", "inputs", "scorers", "about")
_FORMATS = ("cases", "gsm8k")
_LAST_NUMBER = re.compile(r"####\s*(-?[\d,]+(?:\.\d+)?)\s*$")


@record
class Case:
    """One case.

    Attributes:
        name: The `id` of its line, else its number from 1 on.
        inputs: Arguments of the program, as JSON-like data, those of the suite included.
        expected: Expected value.
        where: File and line.
    """

    name: str
    inputs: Mapping[str, Any]
    expected: Any
    where: str


@record
class Suite:
    """A program, its cases and their scorers.

    Attributes:
        name: Name of the folder.
        program: `FILE[:FN]`, the file as an absolute path.
        cases: All cases.
        scorers: Scorers; a case passes if each of these and of the judges gives 1.
        judges: Programs that score, too.
        digest: Hash of the files of the program and of the judges, of the cases and the settings.
    """

    name: str
    program: str
    cases: Sequence[Case]
    scorers: Sequence[CaseScorer]
    judges: Sequence[Judge]
    digest: str


def read_suite(
    folder: Path,
    load: Callable[[str], Callable[..., Any]],
    *,
    cases: Path | None = None,
    program: str = "",
) -> Suite:
    """The suite in a folder.

    Args:
        folder: A folder with `suite.toml`.
        load: Gives the function that `FILE:FN` names; the file is an absolute path.
        cases: File with the cases in place of that of the suite.
        program: `FILE[:FN]` in place of the suite's program, or "".

    Raises:
        UsageError: A file is missing, a key is unknown or a value is wrong.
    """
    file = folder / FILE
    if not file.is_file():
        raise UsageError(f"there is no suite {folder}", hint=f"name a folder with a {FILE}")
    table = _table(file)
    for key in table:
        if key not in _KEYS:
            raise UsageError(
                f"{file}: {key!r} is no key of a suite", hint=f"it takes {', '.join(_KEYS)}"
            )
    program = (
        _inside(Path(), program) if program else _inside(folder, _text_of(table, "program", file))
    )
    source = str(cases) if cases is not None else _inside(folder, _text_of(table, "cases", file))
    form = table.get("format", "cases")
    if form not in _FORMATS:
        raise UsageError(f"{file}: format {form!r}", hint=f"give {' or '.join(_FORMATS)}")
    inputs = table.get("inputs", {})
    if not isinstance(inputs, dict):
        raise UsageError(f"{file}: inputs is no table", hint="write [inputs]")
    scorers = table.get("scorers", [{"kind": "exact"}])
    if not isinstance(scorers, list) or not scorers:
        raise UsageError(f"{file}: scorers is no list of tables", hint="write [[scorers]]")
    if cases is None and _file_of(source) != source:
        found = cases_of(load(source)(), inputs, form, source)
    else:
        found = read_cases(Path(source), inputs, form)
    judging = [one for one in scorers if isinstance(one, dict) and one.get("kind") == KIND]
    judges = [read_judge(one, folder, where=str(file)) for one in judging]
    files = [Path(_file_of(name)) for name in (program, *(one.program for one in judges))]
    return Suite(
        folder.resolve().name,
        program,
        found,
        [
            read_scorer(one, lambda name: load(_inside(folder, name)), where=str(file))
            for one in scorers
            if one not in judging
        ],
        judges,
        _digest(table, files, found),
    )


def read_cases(path: Path, shared: Mapping[str, Any], form: str = "cases") -> list[Case]:
    """The cases of a JSONL file.

    Args:
        path: The file: `{"inputs": {...}, "expected": ...}` a line, with an optional `id`.
        shared: Inputs that every case has unless it gives them itself.
        form: "cases", or "gsm8k" for lines with `question` and `answer`.

    Raises:
        UsageError: A line is wrong, two have one id, or there is none.
    """
    lines = enumerate(_read(path).split("\n"), start=1)
    rows = [(f"{path}:{number}", line) for number, line in lines if line.strip()]
    return _cases([(where, _row(line, where)) for where, line in rows], shared, form, str(path))


def cases_of(rows: object, shared: Mapping[str, Any], form: str, source: str) -> list[Case]:
    """The cases that a function of the suite makes: a list of objects as those of a file.

    Raises:
        UsageError: They are no such list.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{source} gave no list of dicts", hint='return [{"inputs": ...}, ...]')
    named = [(f"{source}, case {number}", row) for number, row in enumerate(rows, start=1)]
    return _cases(named, shared, form, source)


def _cases(
    rows: Sequence[tuple[str, dict[str, Any]]], shared: Mapping[str, Any], form: str, source: str
) -> list[Case]:
    found: dict[str, Case] = {}
    for number, (where, given) in enumerate(rows, start=1):
        row = _of_gsm8k(given, where) if form == "gsm8k" else given
        unknown = sorted(row.keys() - {"id", "inputs", "expected"})
        if unknown or not isinstance(row.get("inputs"), dict) or "expected" not in row:
            what = f"has the unknown key {unknown[0]!r}" if unknown else "lacks inputs or expected"
            raise UsageError(
                f"{where} {what}", hint='write {"inputs": {...}, "expected": ...} a line'
            )
        name = str(row.get("id", number))
        if name in found:
            raise UsageError(
                f"{where} has the id {name!r} of {found[name].where}",
                hint="give each case an id of its own, or none",
            )
        found[name] = Case(name, {**shared, **row["inputs"]}, row["expected"], where)
    if not found:
        raise UsageError(f"{source} has no cases", hint="write one JSON object a line")
    return list(found.values())


def _of_gsm8k(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A problem of GSM8K, whose answer ends in `#### NUMBER`."""
    question, answer = row.get("question"), row.get("answer")
    found = _LAST_NUMBER.search(answer) if isinstance(answer, str) else None
    if not isinstance(question, str) or found is None:
        raise UsageError(
            f"{where} is no problem of GSM8K",
            hint='its lines are {"question": "...", "answer": "... #### NUMBER"}',
        )
    return {"inputs": {"question": question}, "expected": float(found[1].replace(",", ""))}


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}", hint="write one object a line") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where} is no JSON object", hint="write one object a line")
    return row


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}", hint="name a text file") from None


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not TOML: {error}", hint="see docs/evaluating.md") from None


def _text_of(table: Mapping[str, Any], key: str, file: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(
            f"{file} gives no {key}",
            hint=f'{key} = "FILE"' + (", or --cases FILE" if key == "cases" else ""),
        )
    return value


def _inside(folder: Path, name: str) -> str:
    """`FILE[:FN]` with the file beside `suite.toml` as an absolute path."""
    return str(folder.resolve() / name)


def _file_of(target: str) -> str:
    file, colon, name = target.rpartition(":")
    return file if colon and file.endswith(".py") and name else target


def _digest(table: Mapping[str, Any], programs: Sequence[Path], cases: Sequence[Case]) -> str:
    settings = {key: value for key, value in table.items() if key != "about"}
    asked = [[one.name, one.inputs, one.expected] for one in cases]
    texts = "".join(_read(program) for program in programs)
    text = json.dumps([settings, texts, asked], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
