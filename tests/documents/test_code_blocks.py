"""Every Python and shell block of the documents runs, or says above it why it does not.

The blocks of a page run in their order, in one folder and one module. A block with a title is the
file of that name there. What follows `<!-- prints -->` is compared with the output of the block
before it. Programs run on the embedded model, in one runtime for all pages.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from agentrt import open_runtime
from agentrt.app import run_here
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.program.default_runner import default_runner, set_default_runner
from agentrt.runtime import Runtime
from agentrt.serve import ServeConfig, serving
from tests.documents.code_blocks import FOREIGN, CodeBlock, code_blocks
from tests.documents.page_run import ROOT, PageRun, refuse_running_loop

PAGES = sorted((ROOT / "docs").rglob("*.md"))
LANGUAGES = {"python", "shell", "text", "toml", "json", "yaml", "dockerfile", "mermaid"}
MARKS = {"not run", "prints", "exits with", "server", "part"}
INCLUDED = re.compile(r"^--8<--\n((?:programs|examples)/.+)\n--8<--$", re.MULTILINE)
SLOW = {"latency", "observing", "reports", "transcripts"}
"""Pages whose blocks take more than a second or two; `make slow` runs them."""

ELSEWHERE = {"testing"}
"""Pages that are test modules; `tests/test_documented_tests.py` runs them."""


def blocks_of(page: Path) -> list[CodeBlock]:
    return list(code_blocks(page))


ALL = [block for page in PAGES for block in blocks_of(page)]
WITH_CODE = [
    page
    for page in PAGES
    if any(block.is_run for block in blocks_of(page)) and page.stem not in ELSEWHERE
]


@pytest.fixture(scope="module")
def shared(portal: anyio.from_thread.BlockingPortal) -> Iterator[Runtime]:
    """One runtime on the embedded model, for the programs of all pages."""
    with portal.wrap_async_context_manager(open_runtime(place="thread")) as runtime:
        yield runtime


@pytest.fixture
def engines_here(
    portal: anyio.from_thread.BlockingPortal, shared: Runtime, engines_in_threads: None
) -> Iterator[None]:
    """Engines in threads; `Program.run` takes the shared runtime if it names no other engine."""

    def run_shared(program: Any, args: Any, kwargs: Any, engine: Any) -> Any:
        refuse_running_loop(program.name)
        if engine is not None:
            return run_here(program, args, kwargs, engine)
        return portal.call(partial(shared.run, program, *args, **kwargs))

    before = default_runner()
    set_default_runner(run_shared)
    yield
    set_default_runner(before)


@pytest.fixture(scope="module")
def embedded_url(portal: anyio.from_thread.BlockingPortal) -> Iterator[str]:
    """The address of `agentrt serve` with the embedded model."""
    config = ServeConfig("embedded", port=0, grace_s=1)
    opening = open_runtime(models={}, place="thread")
    with portal.wrap_async_context_manager(serving(config, opening)) as url:
        yield url


def page_parameter(page: Path) -> Any:
    marks = [pytest.mark.slow] if page.stem in SLOW else []
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT / "docs")))


@pytest.mark.model
@pytest.mark.usefixtures("engines_here")
@pytest.mark.parametrize("page", [page_parameter(page) for page in WITH_CODE])
def test_blocks_run(
    page: Path,
    folder_here: Path,
    portal: anyio.from_thread.BlockingPortal,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder_here / "state"))
    monkeypatch.setenv("CI", "true")
    server_url = partial(request.getfixturevalue, "embedded_url")
    run = PageRun(page, folder_here, portal, server_url, monkeypatch)
    for block in blocks_of(page):
        if not INCLUDED.search(block.text):
            run.run(block)


def test_every_block_has_a_language() -> None:
    assert [one.place for one in ALL if one.language not in LANGUAGES] == []


def test_marks_are_known_and_have_reasons() -> None:
    wrong = [one.place for one in ALL if not one.marks.keys() <= MARKS]
    silent = [one.place for one in ALL if len(one.marks.get("not run", "because")) < 7]
    assert (wrong, silent) == ([], [])


def test_text_blocks_hold_no_commands() -> None:
    """A command in a block of text would be run by no test."""
    command = re.compile(r"^(agentrt|python|pip|make|export) ", re.MULTILINE)
    texts = [one for one in ALL if one.language == "text" and "prints" not in one.marks]
    assert [one.place for one in texts if command.search(one.text)] == []


@pytest.mark.parametrize(
    "block", [one for one in ALL if one.language == "toml"], ids=lambda one: one.place
)
def test_settings_are_read(block: CodeBlock, tmp_path: Path) -> None:
    """A part of a file has to be TOML, a whole one has to be an `agentrt.toml`."""
    table = tomllib.loads(block.text)
    if "part" not in block.marks:
        path = tmp_path / "agentrt.toml"
        path.write_text(block.text, "utf-8")
        file = read_engine_file(path)
        assert file.engines.keys() >= table.get("engines", {}).keys() - {"embedded"}
        assert file.tool_servers.keys() == table.get("mcp", {}).keys()


def test_json_is_json() -> None:
    for block in ALL:
        if block.language == "json":
            json.loads(block.text)


def test_included_files_are_run_elsewhere() -> None:
    """Files that pages include are run by `tests/test_examples.py`."""
    found = [name for block in ALL for name in INCLUDED.findall(block.text)]
    assert found
    assert [name for name in found if not (ROOT / name).is_file()] == []


def test_code_of_other_libraries_is_python() -> None:
    foreign = [one for one in ALL if one.tab in FOREIGN]
    assert len(foreign) >= 40
    for block in foreign:
        ast.parse(block.text, block.place)


def test_the_site_lists_every_page() -> None:
    """Records of decisions are listed on a page of their own."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    listed = [page for one in site["nav"] for page in pages_in(one)]
    there = [path.relative_to(ROOT / "docs").as_posix() for path in PAGES]
    assert sorted(listed) == [one for one in there if not re.fullmatch(r"decisions/\d+-.*", one)]


def pages_in(entry: Any) -> Iterator[str]:
    """The pages of one entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for one in entry:
            yield from pages_in(one)
    else:
        yield from pages_in(list(entry.values()))


def test_marks_titles_and_tabs_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n<!-- not run: needs a GPU -->\n\n```shell\nvllm serve MODEL\n```\n\n"
        '```python title="a.py"\nx = 1\n```\n\n=== "DSPy"\n\n    ```python\n    y = 2\n    ```\n'
    )
    shell, file, foreign = code_blocks(page)
    assert (shell.marks, shell.is_run, shell.line) == ({"not run": "needs a GPU"}, False, 5)
    assert (file.title, file.text, file.is_run) == ("a.py", "x = 1\n", True)
    assert (foreign.tab, foreign.text, foreign.is_run) == ("DSPy", "y = 2\n", False)


def test_an_open_fence_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```python\nx = 1\n")
    with pytest.raises(ValueError, match="not closed"):
        list(code_blocks(tmp_path / "page.md"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nprint(1)\n```\n\n<!-- prints -->\n```text\n2\n```\n", "page.md:6"),
        (
            '```python title="test_x.py"\ndef test_x():\n    assert 0\n```\n\n'
            "```shell\npytest -q test_x.py\n```\n",
            "exit code 1",
        ),
        ("```shell\nagentrt run nothing.py\n```\n", "exit code 2"),
        ("```shell\nrm -r nothing\n```\n", "run by no test"),
        ("<!-- exits with: 5 -->\n```shell\nagentrt --version\n```\n", "exit code 0"),
    ],
)
def test_a_block_that_does_otherwise_fails(
    text: str,
    fault: str,
    folder_here: Path,
    portal: anyio.from_thread.BlockingPortal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = folder_here / "page.md"
    page.write_text(text)
    run = PageRun(page, folder_here, portal, str, monkeypatch)
    *before, last = code_blocks(page)
    for block in before:
        run.run(block)
    with pytest.raises(AssertionError, match=fault):
        run.run(last)
