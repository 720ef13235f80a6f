"""Importing is cheap: what is heavy is imported where it is used. Counted, not timed."""

import json
import os
import subprocess
import sys

import pytest

from tests.syntax import ROOT

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
    most = 338 if sys.version_info < (3, 13) else 345  # the same ones fall into more modules there
    assert len(loaded) < most, len(loaded)


def listed_by(script: str) -> list[str]:
    """The modules that a script of the tests of remote engines prints."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "remote" / script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    listed: list[str] = json.loads(done.stdout)
    return listed


def test_no_deadline_waits_for_an_import_on_the_event_loop() -> None:
    """All that a run needs until its first request is imported once its runtime is open."""
    assert listed_by("loaded_in_a_run.py") == []


def test_a_first_request_waits_for_no_import_that_it_does_not_need() -> None:
    """What reads, checks and closes an answer is imported while the server writes it."""
    loaded = listed_by("loaded_at_first_request.py")
    unneeded = (
        *("numpy", "torch", "transformers", "tokenizers", "jinja2", "jsonschema", "opentelemetry"),
        *("uvicorn", "agentrt.engine", "agentrt.lab", "agentrt.serve", "agentrt.testing"),
        *(f"agentrt.structured.{room}" for room in ("backends", "closing", "matcher", "masks")),
        *(f"agentrt.structured.{room}" for room in ("sandbox", "call_text", "types.items")),
    )
    assert not [name for name in loaded if name.startswith(unneeded)]
    assert len([name for name in loaded if name.startswith("agentrt")]) < 474
