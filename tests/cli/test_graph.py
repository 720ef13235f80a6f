"""`agentrt graph`: a program or a run, in three forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
FINANCE = str(ROOT / "programs" / "finance.py")
RUN = str(ROOT / "traces" / "finance.json")


@pytest.fixture(autouse=True)
def path_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_program_from_its_code(inside: Callable[..., Any]) -> None:
    told = inside("graph", FINANCE)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("flowchart TD\n  %% finance (")
    for text in ("plan<br/>", "report<br/>", "calls of tools<br/>prices", "-. starts .->"):
        assert text in told.out


def test_a_run(inside: Callable[..., Any]) -> None:
    told = inside("graph", "--run", RUN, "--format", "dot")
    assert told.out.startswith('digraph "')
    assert "compare#0" in told.out
    assert "tokens" in told.out


@pytest.mark.parametrize("of", [(FINANCE,), ("--run", RUN)])
def test_a_picture_loads_nothing(inside: Callable[..., Any], of: tuple[str, ...]) -> None:
    told = inside("graph", *of, "--format", "svg")
    texts = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(told.out).iter()}
    assert texts <= {"svg", "rect", "text", "path", "title", "defs", "marker"}


def test_a_file_for_it(inside: Callable[..., Any], tmp_path: Path) -> None:
    told = inside("graph", FINANCE, "--format", "svg", "--out", "finance.svg")
    assert (told.out, told.err) == ("", "wrote finance.svg\n")
    assert (tmp_path / "finance.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "neither a program nor a run is given"),
        ((FINANCE, "--run", RUN), "a program and a run are both given"),
        (("absent.py",), "there is no file absent.py"),
        (("--run", "xyz"), "there are no traces"),
        ((FINANCE, "--format", "png"), "png"),
    ],
)
def test_what_cannot_be_drawn(
    inside: Callable[..., Any], words: tuple[str, ...], what: str
) -> None:
    told = inside("graph", *words)
    assert (told.code, told.out) == (2, "")
    assert what in told.lines[0]
