"""Importing is cheap: what is heavy is imported where it is used. Counted, not timed."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "opentelemetry.exporter", "numpy.linalg", "triton", "uvicorn")
COUNT = "import sys, json\n{statement}\njson.dump(sorted(sys.modules), sys.stdout)"


def modules_after(statement: str) -> list[str]:
    code = COUNT.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    names: list[str] = json.loads(done.stdout[done.stdout.rindex("[") :])
    return names


@pytest.mark.parametrize("module", ["agentrt", "agentrt.cli.main", "agentrt.app"])
def test_nothing_heavy_comes_along(module: str) -> None:
    loaded = modules_after(f"import {module}")
    heavy = [name for name in loaded if name.startswith(HEAVY)]
    assert not heavy


def test_writing_programs_needs_no_pydantic() -> None:
    """It is what half of `import agentrt` would cost; the first schema brings it along."""
    assert not [name for name in modules_after("import agentrt") if name.startswith("pydantic")]


def test_help_imports_only_what_it_shows() -> None:
    """`agentrt --help` stays below the modules that its 250 ms allow."""
    run = (
        "from agentrt.cli.main import answer; import io, contextlib\n"
        "with contextlib.redirect_stdout(io.StringIO()): assert answer(['--help']) == 0\n"
    )
    loaded = modules_after(run)
    own = [name for name in loaded if name.startswith("agentrt")]
    for room in ("agentrt.engine", "agentrt.runtime", "agentrt.telemetry", "agentrt.structured"):
        assert room not in own
    assert len(loaded) < 340, len(loaded)
