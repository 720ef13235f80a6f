"""The code of docs/testing.md is a test module that passes."""

import re

import pytest

from agentrt import testing
from agentrt.recording import RunRecording
from agentrt.testing import LoopClock, ScriptedRuntime
from tests.syntax import ROOT

pytest_plugins = "pytester"

# A session inside this process forgets the modules that it imports: these are there before.
LOADED = [getattr(testing, name) for name in dir(testing) if not name.startswith("_")]

RECORD = """
def test_recording(scripted):
    for name in ("test_worth.test_as_recorded", "worth"):
        path = Path("recordings") / f"{name}.jsonl"
        engine = scripted(SCRIPT, observers=[RunRecording(path, LoopClock())])
        engine.run(worth, "What is IBM worth?")
"""


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_the_code_about_tests_passes(pytester: pytest.Pytester) -> None:
    code = blocks("python")
    names = re.findall(r"^(?:async )?def (test_\w+)", "\n".join(code), re.MULTILINE)
    assert len(names) > 8
    imports = [
        f"from {one.__module__} import {one.__name__}"
        for one in (RunRecording, LoopClock, ScriptedRuntime)
    ]
    first = code.index(next(block for block in code if "test_as_recorded" in block))
    code[first:first] = ["from pathlib import Path", *imports, RECORD]
    pytester.makepyfile(test_worth="\n".join(code))
    done = pytester.runpytest_inprocess("-p", "agentrt_pytest", "--strict-markers")
    done.assert_outcomes(passed=len(names) + 1)


def test_a_failure_reads_as_it_is_shown(pytester: pytest.Pytester) -> None:
    (shown,) = blocks("text")
    slow = """
def test_slow(scripted):
    assert_compound_under(scripted(SCRIPT).run(worth, "What is IBM worth?"), 2)
"""
    pytester.makepyfile(test_worth="\n".join([*blocks("python")[:2], slow]))
    done = pytester.runpytest_inprocess("-p", "agentrt_pytest", "-k", "slow")
    done.stdout.fnmatch_lines([f"*{line}" for line in shown.splitlines()])
