"""The tiers of tests: `make quick`, `make test` and `make slow`."""

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import WithoutTorch, group_of
from tests.oracles.browser import unseen_pages
from tests.syntax import ROOT, files_in, nodes_of, tree_of

MOST_SLOW_SHARE = 0.05


def functions() -> Iterator[tuple[str, bool]]:
    """Each test function, and whether all of it is left to `make slow`."""
    for path in files_in("tests"):
        file = path.relative_to(ROOT).as_posix()
        whole = any(
            isinstance(node, ast.Assign) and is_slow(node.value)
            for node in tree_of(path).body
            if ast.unparse(node).startswith("pytestmark")
        )
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{file}::{node.name}", whole or any(map(is_slow, node.decorator_list))


def is_slow(mark: ast.expr) -> bool:
    """Whether a mark makes a function slow, not one of its parameters."""
    marks = mark.elts if isinstance(mark, ast.List) else [mark]
    return any(ast.unparse(one) == "pytest.mark.slow" for one in marks)


def test_few_functions_are_slow() -> None:
    found = dict(functions())
    slow = [name for name, is_slow in found.items() if is_slow]
    assert slow
    assert len(slow) <= MOST_SLOW_SHARE * len(found), "\n".join(slow)


@pytest.mark.parametrize(
    ("decorator", "slow"),
    [
        ("pytest.mark.slow", True),
        ("[pytest.mark.model, pytest.mark.slow]", True),
        ("pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.slow)])", False),
    ],
)
def test_a_slow_mark_is_seen(decorator: str, slow: bool) -> None:
    assert is_slow(ast.parse(decorator, mode="eval").body) is slow


def test_every_tier_is_run() -> None:
    """What `make test` leaves out `make slow` runs, and continuous integration runs both.

    Servers of other makers have to be built first, so `make test-peers` is left to people.
    """
    makefile = (ROOT / "Makefile").read_text("utf-8")
    chosen = re.findall(r'^\t\$\(PYTEST\) -m "([^"]+)"', makefile, re.MULTILINE)
    assert sorted(chosen) == [
        "not slow and not model and not peers",
        "not slow and not peers",
        "peers",
        "slow",
    ]
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-2:] == ["make test", "make slow"]


def test_rooms_of_the_quick_tier_exist() -> None:
    (rooms,) = re.findall(r"^QUICK := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert [room for room in rooms.split() if not (ROOT / "tests" / room).is_dir()] == []


def test_the_quick_tier_refuses_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutTorch(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="torch is imported in a test of `make quick`"):
        import torch  # noqa: F401


def test_tests_that_share_a_server_share_a_worker() -> None:
    assert group_of("tests/cli/test_run.py") == group_of("tests/remote/test_backend.py")
    assert group_of("tests/engine/test_kv.py") != group_of("tests/engine/test_parity.py")
    assert group_of("tests/test_prose.py") == group_of("tests/test_floors.py")


@pytest.mark.parametrize(
    ("chosen", "browser", "is_told"),
    [
        ([], None, True),
        (["tests"], None, True),
        (["tests/analysis/report"], None, True),
        (["tests/analysis/report/test_in_browser.py::test_it"], None, True),
        (["tests/analysis/graph", "tests/cli"], None, False),
        (["tests"], "/usr/bin/chromium", False),
    ],
)
def test_a_run_without_a_browser_says_so(
    chosen: list[str], browser: str | None, is_told: bool
) -> None:
    line = unseen_pages([str(ROOT / one) for one in chosen] or [str(ROOT)], browser)
    assert ("Chromium" in line) is is_told
    assert "\n" not in line
