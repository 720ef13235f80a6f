"""The code of docs/testing.md is a test module that passes."""

import re

import pytest

from agentrt.recording import RunRecording
from agentrt.testing import LoopClock, ScriptedRuntime
from tests.syntax import ROOT

pytest_plugins = "pytester"

RECORD = """
def test_recording(scripted):
    for name in ("test_worth.test_as_recorded", "worth"):
        path = Path("recordings") / f"{name}.jsonl"
        engine = scripted(SCRIPT, observers=[RunRecording(path, LoopClock())])
        engine.run(worth, "What is IBM worth?")
"""

SLOW = """
def test_slow(scripted):
    assert_compound_under(scripted(SCRIPT).run(worth, "What is IBM worth?"), 2)
"""


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_code_about_tests_does_what_it_says(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: here a session would import parts of the package anew."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    code = blocks("python")
    names = re.findall(r"^(?:async )?def (test_\w+)", "\n".join(code), re.MULTILINE)
    assert len(names) > 8
    imports = [
        f"from {one.__module__} import {one.__name__}"
        for one in (RunRecording, LoopClock, ScriptedRuntime)
    ]
    first = code.index(next(block for block in code if "test_as_recorded" in block))
    code[first:first] = ["from pathlib import Path", *imports, RECORD]
    pytester.makepyfile(test_worth="\n".join([*code, SLOW]))
    done = pytester.runpytest_subprocess("-p", "agentrt_pytest", "--strict-markers")
    done.assert_outcomes(passed=len(names) + 1, failed=1)
    (failure,) = blocks("text")
    done.stdout.fnmatch_lines([f"*{line}" for line in failure.splitlines()])
