"""Both type checkers find exactly the mistakes that `api.py` marks, and none in `strict.py`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
API = HERE / "api.py"
STRICT = HERE / "strict.py"


def marked(checker: str, path: Path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {n: re.search(r"# error(?:: (\w+))?$", line) for n, line in enumerate(lines, 1)}
    return {n for n, mark in found.items() if mark and mark.group(1) in (None, checker)}


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.stdout.strip() or not done.returncode, done.stderr
    return done.stdout


def mypy_errors(*paths: Path) -> dict[int, str]:
    told = run("mypy", "--strict", "--no-error-summary", "--output=json", *map(str, paths))
    errors = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    return {e["line"]: e["message"] for e in errors if e["severity"] == "error"}


def pyright_errors(*paths: Path) -> dict[int, str]:
    told = json.loads(run("pyright", "--outputjson", *map(str, paths)))
    errors = [d for d in told["generalDiagnostics"] if d["severity"] == "error"]
    return {e["range"]["start"]["line"] + 1: e["message"] for e in errors}


@pytest.mark.slow
@pytest.mark.parametrize("path", [API, STRICT], ids=["api", "strict"])
@pytest.mark.parametrize(
    ("checker", "errors"), [("mypy", mypy_errors), ("pyright", pyright_errors)]
)
def test_checkers_find_the_marked_mistakes(checker: str, errors: object, path: Path) -> None:
    found = errors(path)  # type: ignore[operator]
    expected = marked(checker, path)
    assert found.keys() == expected, {
        n: found.get(n, "not found") for n in found.keys() ^ expected
    }
