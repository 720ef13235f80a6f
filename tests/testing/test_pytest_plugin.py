"""The plugin as a user of pytest meets it, in test suites of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = "pytester"

PROGRAM = """
from agentrt import chat, program

@program
async def river(country: str) -> str:
    return await chat().user("Name a river of ", country).generate(name="river")
"""

SCRIPTED = """
import anyio
import pytest
from rivers import river
from agentrt.testing import Reply, assert_compound_under, assert_critical_path

SCRIPT = {"river": Reply("Nile", prefill_s=1.0, decode_s=2.0)}

def test_plain(scripted):
    run = scripted(SCRIPT).run(river, "Egypt")
    assert run.value == "Nile"
    assert_critical_path(run, ["river"])
    assert_compound_under(run, 3.5)

def test_code_under_test(scripted):
    scripted(SCRIPT)
    assert river.run("Egypt") == "Nile"

@pytest.mark.agentrt
async def test_virtual_time(scripted):
    engine = scripted(SCRIPT)
    began_s = anyio.current_time()
    async with engine.open() as runtime:
        assert await runtime.run(river, "Egypt") == "Nile"
        await anyio.sleep(3600)
    assert anyio.current_time() - began_s == 3603
    assert engine.runs[-1].compound_s == 3

class TestMethods:
    @pytest.mark.agentrt
    async def test_of_a_class(self, scripted, tmp_path):
        assert scripted(SCRIPT).run(river, "Egypt").compound_s == 3

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_on_the_loop_of_another_plugin(scripted):
    assert scripted(SCRIPT).run(river, "Egypt").compound_s == 3

def test_too_slow(scripted):
    run = scripted(SCRIPT).run(river, "Egypt")
    assert_compound_under(run, 2)

def test_no_answer(scripted):
    scripted({}).run(river, "Egypt")

def test_no_recording(recorded):
    pass

async def test_of_nobody():
    pass
"""

RECORDED = """
import pytest
from rivers import river

@pytest.mark.parametrize("country", ["Egypt", "a/b c"])
def test_river(recorded, country):
    run = recorded.run(river, country)
    assert isinstance(run.value, str)
    assert run.generation("river").ledger.output_tokens > 0

@pytest.mark.agentrt
async def test_async(recorded):
    async with recorded.open() as runtime:
        assert await runtime.run(river, "Egypt")
    assert recorded.runs[-1].generation("river").text
"""


@pytest.fixture(autouse=True)
def _few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def plugged(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """A session outside: in this process it would import parts of the package anew."""
    return pytester.runpytest_subprocess("-p", "agentrt_pytest", "-p", "anyio.pytest_plugin", *args)


def test_fixtures_and_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(rivers=PROGRAM, test_rivers=SCRIPTED)
    done = plugged(pytester, "--strict-markers")
    done.assert_outcomes(passed=5, failed=3, errors=1)
    done.stdout.fnmatch_lines(
        [
            "*recordings/test_rivers.test_no_recording.jsonl*--agentrt-record*",
            "*compound latency 3.000 s is not under 2 s*",
            "*compound 3.000 s = prefill 1.000 + decode 2.000*",
            "*the script has no answer for 'river' (river#0/river#0, rivers.py:5)*",
            "*async def functions are not natively supported*",  # it has no marker
        ]
    )
    text = done.stdout.str()
    assert "asyncio/base_events" not in text
    assert "fake_backend.py" not in text


def test_the_marker_goes_before_plugins_that_take_every_async_test(
    pytester: pytest.Pytester,
) -> None:
    """As the auto mode of pytest-asyncio does: its items call a plain function around the test."""
    taking = """
    import asyncio, functools, inspect, pytest

    class Taken(pytest.Function):
        def runtest(self):
            function = self.obj

            @functools.wraps(function)
            def plain(**kwargs):
                return asyncio.run(function(**kwargs))

            self.obj = plain
            super().runtest()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_pycollect_makeitem(collector, name, obj):
        made = yield
        if inspect.iscoroutinefunction(obj):
            made.force_result(Taken.from_parent(collector, name=name, callobj=obj))
    """
    test = """
    import anyio, pytest

    @pytest.mark.agentrt
    async def test_marked():
        await anyio.sleep(3600)

    async def test_other():
        assert anyio.current_time() != 1000
    """
    pytester.makepyfile(pytest_asyncio_like=taking, test_times=test)
    pytester.syspathinsert()
    plugged(pytester, "-p", "pytest_asyncio_like").assert_outcomes(passed=2)


def test_sessions_without_its_fixtures_import_nothing_of_the_package(tmp_path: Path) -> None:
    """In a process of its own: this one has imported the package long ago."""
    test = tmp_path / "test_own.py"
    test.write_text("import sys\ndef test_own(): assert 'agentrt' not in sys.modules\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "agentrt_pytest", "-q", str(test)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.model
@pytest.mark.slow
def test_runs_are_recorded_and_replayed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(rivers=PROGRAM, test_rivers=RECORDED)
    plugged(pytester, "--agentrt-record").assert_outcomes(passed=3)
    names = sorted(path.name for path in (pytester.path / "recordings").iterdir())
    tests = ("async", "river_Egypt", "river_a_b_c")
    assert names == [f"test_rivers.test_{one}.jsonl" for one in tests]
    first = json.loads((pytester.path / "recordings" / names[0]).read_text("utf-8").split("\n")[0])
    assert first["engines"]["default"]["backend"] == "embedded"
    monkeypatch.setenv("AGENTRT_ENGINE", "http://127.0.0.1:9")  # no engine is asked any more
    plugged(pytester).assert_outcomes(passed=3)
