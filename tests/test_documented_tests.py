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


def test_the_code_about_tests_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = re.findall(r"^(?:async )?def (test_\w+)", "\n".join(blocks), re.MULTILINE)
    assert len(names) > 8
    imports = [
        f"from {one.__module__} import {one.__name__}"
        for one in (RunRecording, LoopClock, ScriptedRuntime)
    ]
    first = blocks.index(next(block for block in blocks if "test_as_recorded" in block))
    source = "\n".join(
        [*blocks[:first], "from pathlib import Path", *imports, RECORD, *blocks[first:]]
    )
    pytester.makepyfile(test_worth=source)
    done = pytester.runpytest_inprocess("-p", "agentrt_pytest", "--strict-markers")
    done.assert_outcomes(passed=len(names) + 1)
