"""The tables of what each engine enforces say what the code does with each kind of server."""

import re

import pytest

from agentrt.base.engines.engine_kind import EngineKind, engine_kind, kind_names
from agentrt.remote.constraints.constraint_dialects import dialects_named
from agentrt.remote.protocols import WIRE_PROTOCOLS
from agentrt.remote.remote_server import RemoteServer, field_names
from agentrt.remote.report import report_of
from tests.documents.page_run import ROOT

TYPES = ("json", "list", "choice", "regex", "grammar", "calls", "step")
TEXT = (ROOT / "docs" / "engine_matrix.md").read_text("utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the table below a heading, by their first cell."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[one.strip() for one in line.strip("|").split("|")] for line in lines]
    return {name.strip("`"): rest for name, *rest in cells[2:]}


def types_of(kind: EngineKind) -> list[str]:
    if kind.is_probed:
        return ["probed"] * len(TYPES)
    dialects = {name: one.dialects for name, one in kind.constraints.items()}
    server = RemoteServer(
        "http://here/v1",
        "m",
        family=kind.family,
        fields=field_names(kind),
        proven=dialects_named(dialects),
        takes_bounds=kind.takes_bounds,
        protocol=WIRE_PROTOCOLS[kind.protocol],
    )
    return [report_of(server)[one].partition(" ")[0] for one in TYPES]


def options_of(kind: EngineKind) -> list[str]:
    tokens = kind.tokens
    has = (
        "seed" in kind.fields,
        tokens is not None and tokens.logprobs is not None,
        tokens is not None and bool(tokens.scores),
        tokens is not None,
        kind.warming is not None,
        any(hint.name == "priority" for hint in kind.hints),
        kind.load is not None,
    )
    return ["yes" if one else "no" for one in has]


@pytest.mark.parametrize("name", kind_names())
def test_the_tables_say_what_a_kind_does(name: str) -> None:
    kind = engine_kind(name)
    assert rows("Types")[name] == types_of(kind)
    assert rows("Options")[name] == options_of(kind)


@pytest.mark.parametrize("heading", ["Types", "Options"])
def test_the_tables_have_every_kind(heading: str) -> None:
    assert set(rows(heading)) == {"embedded", *kind_names()}
    assert set(rows(heading)["embedded"]) <= {"enforced", "yes"}


def test_the_heads_fit() -> None:
    heads = re.findall(r"^\| engine \(`kind`\) \|(.+)\|$", TEXT, re.MULTILINE)
    assert [len(head.split("|")) for head in heads] == [len(TYPES), 7]
