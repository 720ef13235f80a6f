"""Docstrings are plain English: nouns of the field first, no person for a request or for code."""

import ast
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.syntax import ROOT, files_in, nodes_of

PERSON = re.compile(r"\b(who|whoever|whomever|somebody|nobody|anybody|everybody)\b", re.I)
# A fragment that continues the name which it describes: "clock: Of all instants."
FRAGMENT = re.compile(r"(Of|What|Whatever|Who|Whose|Those|That|It|Its|Such)\b")
ENTRY = re.compile(r"^\s*\*{0,2}\w+(?: \([^)]*\))?: +(\S.*)$")

# Patterns left by room. The numbers may only shrink: lower them with the text.
LEFT: dict[str, int] = {}


def docstrings(path: Path) -> list[tuple[int, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in nodes_of(path):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            found.append((getattr(node, "lineno", 1), text))
        # The string under an assignment documents the name above it.
        body = getattr(node, "body", None)
        for above, below in pairwise(body) if isinstance(body, list) else ():
            if isinstance(above, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
                value = below.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.append((below.lineno, value.value))
    return found


def faults(text: str) -> list[str]:
    """Lines of a docstring that break a rule."""
    lines = text.splitlines()
    found = [line.strip() for line in lines if PERSON.search(line)]
    if FRAGMENT.match(lines[0]):
        found.append(lines[0])
    for line in lines[1:]:
        entry = ENTRY.match(line)
        if entry and FRAGMENT.match(entry[1]):
            found.append(line.strip())
    return found


@cache
def faults_by_room() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in files_in("agentrt", "kernels"):
        parts = path.relative_to(ROOT).parts
        room = "/".join(parts[:2]).removesuffix(".py") if parts[0] == "agentrt" else parts[0]
        for line, text in docstrings(path):
            found.setdefault(room, [])
            found[room] += [f"{path}:{line}: {fault}" for fault in faults(text)]
    return found


def test_docstrings_avoid_what_reads_as_translated() -> None:
    found = faults_by_room()
    more = {room: said for room, said in found.items() if len(said) > LEFT.get(room, 0)}
    assert not more, "\n".join(line for said in more.values() for line in said)


def test_the_list_only_shrinks() -> None:
    counts = Counter({room: len(said) for room, said in faults_by_room().items()})
    assert {room: n for room, n in counts.items() if n} == LEFT


def test_the_patterns_are_found() -> None:
    assert faults("Of the mean.") == ["Of the mean."]
    assert faults("Tokens.\n\nArgs:\n    clock: Of all instants.") == ["clock: Of all instants."]
    assert faults("Wake whoever waits.") == ["Wake whoever waits."]
    assert faults("Tokens that wait for a slot.") == []
