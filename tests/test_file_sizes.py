"""One idea a file, short functions, and names that say what a thing is."""

import ast
import re
import statistics
from pathlib import Path

from tests.syntax import ROOT, files_in, nodes_of

MOST_LINES = 400
# Longer than a screenful has to earn it: file -> why.
ALLOWED: dict[str, str] = {}

BANNED = re.compile(
    r"(Manager|Handler|Helpers?|Utils?|Common)$|^(Manager|Handler|Helper|Util|Base|Common)(?=[A-Z]|$)"
)
BANNED_FILES = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager"}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in nodes_of(path) if isinstance(node, kinds)]


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if not body:
        return 0
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def test_files_are_short() -> None:
    counts = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in files_in("agentrt", "kernels", "programs", "examples", "tests")
    }
    long = {name: n for name, n in counts.items() if n > MOST_LINES and name not in ALLOWED}
    assert not long, "split these by idea, or say in ALLOWED why not"


def test_the_list_of_exceptions_is_not_stale() -> None:
    for name, reason in ALLOWED.items():
        assert reason
        assert len((ROOT / name).read_text("utf-8").splitlines()) > MOST_LINES, name


def test_functions_are_short() -> None:
    lengths = sorted(
        lines_of(f) for path in files_in("agentrt", "kernels") for f in functions(path)
    )
    assert statistics.median(lengths) <= 10
    assert lengths[int(len(lengths) * 0.9)] <= 40


def test_no_banned_words_in_names() -> None:
    found: list[str] = []
    for path in files_in("agentrt", "kernels", "programs"):
        if path.stem in BANNED_FILES:
            found.append(str(path))
        found += [
            f"{path}:{node.lineno} class {node.name}"
            for node in nodes_of(path)
            if isinstance(node, ast.ClassDef) and BANNED.search(node.name)
        ]
    assert not found, "\n".join(found)


def test_the_banned_words_are_found() -> None:
    """The pattern itself."""
    for name in ("CacheManager", "EventHandler", "BaseEngine", "Helper", "TextUtils"):
        assert BANNED.search(name), name
    for name in ("Baseline", "Engine", "Utility", "Commons", "Based"):
        assert not BANNED.search(name), name
