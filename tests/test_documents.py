"""The documents agree with the tree."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.test_floors import FLOORS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ROOMS = {room for row in FLOORS for room in row}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DEPENDENCIES = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["engine"]]


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert lines[3].startswith("make run")
    assert lines[4].startswith("make test")


def test_the_architecture_is_short() -> None:
    assert len(ARCHITECTURE.splitlines()) <= 200


def test_the_floors_are_those_that_are_tested() -> None:
    block = ARCHITECTURE.split("## Floors")[1].split("```")[1]
    drawn = [tuple(line.split("    ")[0].split()) for line in block.strip().splitlines()]
    assert [set(row) for row in reversed(drawn)] == [set(row) for row in FLOORS]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_exist(document: Path) -> None:
    text = CODE.sub("", document.read_text("utf-8"))
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (document.parent / link).exists(), f"{document}: {link}"
    for path in re.findall(r"`(?:agentrt/)?((?:[a-z_]+/)+[a-z_]+)(?:\.py)?`", text):
        if path.split("/")[0] in ROOMS:
            there = ROOT / "agentrt" / path
            assert there.is_dir() or there.with_suffix(".py").exists(), f"{document}: {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_the_site_lead_to_its_pages_and_headings(page: Path) -> None:
    """What the strict build of the site refuses, found without building it."""
    text = CODE.sub("", page.read_text("utf-8"))
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        target = (page.parent / link).resolve() if link else page
        assert target.is_relative_to(ROOT / "docs"), f"{page}: {link} is no page of the site"
        if anchor and not target.is_relative_to(ROOT / "docs/reference"):  # from docstrings, too
            assert anchor in anchors_of(target), f"{page}: {link}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", text).strip()) for text in texts}


@pytest.mark.parametrize("requirement", DEPENDENCIES)
def test_every_dependency_has_a_reason(requirement: str) -> None:
    name = re.match(r"[\w-]+", requirement)
    assert name
    said = "OTLP/HTTP exporter" if "otlp" in name[0] else name[0]
    assert said in (ROOT / "docs" / "dependencies.md").read_text("utf-8")


def test_the_glossary_names_each_noun_once() -> None:
    rows = re.findall(
        r"^\| ([a-zA-Z][^|]*?) \|", (ROOT / "docs/glossary.md").read_text("utf-8"), re.M
    )
    nouns = [row for row in rows if row != "noun"]
    assert len(nouns) == len(set(nouns)) > 50


def test_folders_named_in_the_readme_exist() -> None:
    tree = README.split("## What is where")[1].split("```")[1]
    for line in tree.splitlines():
        inside = "agentrt/" if line.startswith("  ") else ""
        for name in re.findall(r"(?:^ *|(?<=/ ))([\w.]+(?:/|\.py))", line):
            assert (ROOT / (inside + name if name != "agentrt/" else name)).exists(), line
