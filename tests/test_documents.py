"""The documents agree with the tree."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.test_floors import FLOORS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "dependencies"
]


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert lines[3].startswith("make run")
    assert lines[4].startswith("make test")


def test_the_floors_are_those_that_are_tested() -> None:
    block = ARCHITECTURE.split("## Floors")[1].split("```")[1]
    drawn: dict[str, int] = {}
    for line in block.splitlines():
        row = re.match(r" ?(\d+)  (\S.*?)(?: {4,}.*)?$", line)
        if row:
            drawn |= {room: int(row[1]) for room in re.findall(r"\w+", row[2])}
    assert drawn == {room: level for level, row in enumerate(FLOORS) for room in row}


@pytest.mark.parametrize("requirement", DEPENDENCIES)
def test_every_dependency_has_a_reason(requirement: str) -> None:
    name = re.match(r"[\w-]+", requirement)
    assert name
    reasons = ARCHITECTURE.split("## Dependencies")[1].split("\n## ")[0]
    said = "OTLP/HTTP exporter" if "otlp" in name[0] else name[0]
    assert said in reasons


def test_folders_named_in_the_readme_exist() -> None:
    tree = README.split("## What is where")[1].split("```")[1]
    for line in tree.splitlines():
        inside = "agentrt/" if line.startswith("  ") else ""
        for name in re.findall(r"(?:^ *|(?<=/ ))([\w.]+(?:/|\.py))", line):
            assert (ROOT / (inside + name if name != "agentrt/" else name)).exists(), line
