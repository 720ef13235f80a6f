"""The pages of reference name every variable, command, error and public name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentrt
from agentrt.base import errors
from agentrt.cli.main import EXIT_CODES
from tests.documents.page_run import ROOT
from tests.syntax import files_in

DOCS = ROOT / "docs"
OF_BENCHMARKS = re.compile(r"AGENTRT_BENCH_\w+")
SHOWN_ELSEWHERE = {
    # The guide to errors, and the reference of all of them.
    *(name for name in agentrt.__all__ if hasattr(errors, name)),
    # Aliases, and what `open_runtime` of the page takes.
    "OnOverflow",
}


def text_of(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def variables() -> set[str]:
    """Environment variables that the sources name."""
    sources = [path.read_text("utf-8") for path in files_in("agentrt", "kernels")]
    names = re.compile(r"\b(?:AGENTRT|OTEL)_[A-Z_]*[A-Z]\b")
    found = {name for text in sources for name in names.findall(text)}
    return {name for name in found if not OF_BENCHMARKS.match(name)}


def test_every_variable_is_documented() -> None:
    assert len(variables()) > 20
    said = text_of("reference/environment.md")
    assert sorted(name for name in variables() if name not in said) == []


def test_every_command_is_documented() -> None:
    command = [sys.executable, "-m", "agentrt", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60).stdout
    commands = re.findall(r"^  ([a-z]+)  ", told.partition("Commands:")[2], re.MULTILINE)
    assert len(commands) > 8
    said = text_of("reference/command_line.md")
    assert [name for name in commands if f"`agentrt {name}" not in said] == []


def test_every_exit_code_is_documented() -> None:
    codes = re.findall(r"\b(\d+) [a-z]", EXIT_CODES)
    said = text_of("reference/command_line.md")
    assert [code for code in codes if not re.search(rf"^\| .*\b{code}\b", said, re.MULTILINE)] == []


def test_the_tree_of_errors_is_that_of_the_code() -> None:
    """Each error stands in the guide with its exit code."""
    rows = re.findall(r"^\| ([^|]+) \|[^|]+\| (\d+) \|$", text_of("errors.md"), re.MULTILINE)
    said = {name: int(code) for names, code in rows for name in re.findall(r"\w+", names)}
    assert said == {
        name: getattr(agentrt, name).exit_code
        for name in agentrt.__all__
        if isinstance(getattr(agentrt, name), type)
        and issubclass(getattr(agentrt, name), agentrt.AgentrtError)
        and name not in ("AgentrtError", "LimitExceeded")
    }


@pytest.mark.parametrize("name", sorted(set(agentrt.__all__) - SHOWN_ELSEWHERE))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    pages = Path(DOCS / "reference").glob("*.md")
    shown = "\n".join(re.findall(r"^::: (\S+)$", "\n".join(map(Path.read_text, pages)), re.M))
    assert re.search(rf"\.{name}$", shown, re.MULTILINE), name
