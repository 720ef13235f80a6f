"""A program from the shell: the result on standard output, everything else beside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.cli.target import find as program_in
from agentrt.testing import RecordedRuntime
from tests.cli.conftest import environment

PROGRAMS = Path(__file__).resolve().parent.parent.parent / "programs"
VOTE, EXTRACT, ADVISOR = (str(PROGRAMS / name) for name in ("vote.py", "extract.py", "advisor.py"))
Run = Callable[..., Any]
Write = Callable[..., Path]


def test_the_result_is_alone_on_standard_output(served_outside: Run, tmp_path: Path) -> None:
    told = served_outside(EXTRACT, "--text", "Two lamps to Oslo, please.")
    assert told.code == 0, told.err
    assert set(told.json) == {"name", "email", "quantity", "item", "city"}
    assert told.out.count("\n") == 1
    assert "compound" in told.err
    (trace,) = (tmp_path / "traces" / "runs").glob("*.json")
    assert str(trace.relative_to(tmp_path)) in told.err


def test_quiet_leaves_standard_error_empty(served: Run) -> None:
    told = served(VOTE, "--question", "What is 1 + 1?", "--n", "3", "-q", "--trace", "off")
    assert told.code == 0, told.err
    assert told.err == ""
    assert isinstance(told.json, int)


def test_a_run_is_recorded_for_tests(served: Run, tmp_path: Path) -> None:
    path = tmp_path / "vote.jsonl"
    command = (VOTE, "--question", "What is 1 + 1?", "--n", "3", "-q", "--trace", "off")
    told = served(*command, "--record", str(path))
    assert told.code == 0, told.err
    assert path.stat().st_mode & 0o777 == 0o600
    replay = RecordedRuntime(path)
    assert replay.run(program_in(VOTE), "What is 1 + 1?", 3).value == told.json
    (other := tmp_path / "notes.txt").write_text("mine", "utf-8")
    told = served(*command, "--record", str(other))
    assert told.code == 2
    assert "is no recording" in told.lines[0]
    assert other.read_text("utf-8") == "mine"


def test_verbose_draws_bars(served: Run) -> None:
    told = served(VOTE, "--question", "What is 1 + 1?", "--n", "3", "-v", "--trace", "off")
    assert told.code == 0, told.err
    assert "* critical path" in told.err
    assert told.err.count(" ms") >= 3
    assert "trace" not in told.err, "there is none that could be looked at"
    assert isinstance(told.json, int)


def test_json_is_one_object(served: Run, tmp_path: Path) -> None:
    told = served(VOTE, "--question", "What is 1 + 1?", "--n", "2", "--json", "--seed", "7")
    assert told.code == 0, told.err
    found = told.json
    assert found["schema"] == "agentrt.run/1"
    assert found["ok"] is True
    assert found["program"] == "vote"
    assert found["error"] is None
    latency = found["latency"]
    assert sum(latency["split_ms"].values()) == pytest.approx(latency["compound_ms"], abs=1e-6)
    assert found["usage"]["output_tokens"] > 0
    assert (tmp_path / found["trace"]["file"]).is_file()


def test_json_tells_errors_too(served: Run, program: Write) -> None:
    program("from agentrt import program\n@program\nasync def job() -> int:\n    return 1 // 0\n")
    told = served("job.py", "--json")
    assert told.code == 1
    found = told.json
    assert found["ok"] is False
    assert found["output"] is None
    assert found["error"]["type"] == "ZeroDivisionError"
    assert found["error"]["where"] == "job.py:4 in job"
    assert "-v" in found["error"]["hint"]


def test_a_program_chooses_its_exit_code(served: Run, served_outside: Run, program: Write) -> None:
    """`sys.exit` ends the run in order; its trace is written, and nothing is printed for it."""
    text = "import sys\nfrom agentrt import program\n@program\nasync def job() -> int:\n    "
    program(text + "sys.exit(7)\n")
    told = served_outside("job.py", "-q")
    assert (told.code, told.out, told.err) == (7, "", "")
    told = served("job.py", "--json")
    assert told.code == 7
    assert told.json["error"]["type"] == "SystemExit"
    assert not told.json["ok"]
    assert told.json["trace"]["file"]
    program(text + "sys.exit('no data')\n")
    told = served("job.py", "-q")
    assert (told.code, told.out, told.err) == (1, "", "no data\n")


def test_arguments_from_standard_input(served: Run) -> None:
    told = served(VOTE, "--args", "-", stdin='{"question": "What is 2 + 2?", "n": 1}')
    assert told.code == 0, told.err


def test_a_chat_goes_in_and_out_as_messages(served: Run, tmp_path: Path) -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    (tmp_path / "messages.json").write_text(json.dumps(history))
    told = served(ADVISOR, "--history", "@messages.json", "--message", "What is a drawdown?")
    assert told.code == 0, told.err
    roles = [message["role"] for message in told.json]
    assert roles[:3] == ["user", "assistant", "user"]
    assert roles[-1] == "assistant"
    assert told.json[:2] == history


def test_a_batch_answers_in_input_order(served: Run, program: Write, tmp_path: Path) -> None:
    program(
        "import anyio\n"
        "from agentrt import program\n"
        "@program\n"
        "async def job(x: int, scale: int = 1) -> int:\n"
        "    await anyio.sleep(0.02 * (3 - x))\n"
        "    return scale * (10 // x)\n"
    )
    lines = [{"x": 1}, {"x": 0}, {"x": 2, "scale": 3}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    told = served("job.py", "--batch", "in.jsonl", "--concurrency", "3", "--scale", "2")
    assert told.out.split() == ["20", "null", "15"]
    assert told.code == 1
    assert "ZeroDivisionError" in told.err
    objects = served("job.py", "--batch", "in.jsonl", "--json").out.splitlines()
    assert [json.loads(line)["output"] for line in objects] == [10, None, 15]


def test_emitted_text_goes_to_standard_error(served: Run, program: Write) -> None:
    program(
        "from agentrt import chat, emit, program\n"
        "@program\n"
        "async def job() -> int:\n"
        "    answer = chat().user('Hi').generate(max_tokens=5)\n"
        "    await emit(answer)\n"
        "    text = await answer\n"
        "    assert text\n"
        "    return len(text)\n"
    )
    told = served("job.py")
    assert told.code == 0, told.err
    assert int(told.out) > 0
    assert len(told.err.split("compound")[0]) > int(told.out)


def test_a_question_is_answered_on_standard_input(served: Run, program: Write) -> None:
    program(
        "from agentrt import ask, program\n"
        "@program\n"
        "async def job() -> int:\n"
        "    return 2 * await ask(int, 'How many?')\n"
    )
    assert served("job.py", stdin="21\n").out == "42\n"
    nobody = served("job.py")
    assert nobody.code != 0
    assert "nobody answered" in nobody.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_keeps_its_trace(
    server_url: str, program: Write, tmp_path: Path, number: int, code: int
) -> None:
    program(
        "import anyio\n"
        "from agentrt import program\n"
        "@program\n"
        "async def job() -> int:\n"
        "    print('begun', flush=True)\n"
        "    await anyio.sleep(60)\n"
        "    return 1\n"
    )
    command = ["-m", "agentrt", "run", "job.py", "--engine", server_url, "--model", "tiny"]
    running = subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert "begun\n" in iter(running.stderr.readline, "")
    os.kill(running.pid, number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code, err
    assert "Traceback" not in err
    assert len(list((tmp_path / "traces" / "runs").glob("*.json"))) == 1


def test_help_shows_the_programs_own_parameters(inside: Run) -> None:
    told = inside("run", VOTE, "--help")
    assert told.code == 0
    for part in ("--question", "--n", "Parameters of vote", "most of `n` sampled", "--deadline"):
        assert part in told.out


def test_help_leaves_its_text_room_at_eighty_columns(
    inside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program's own flags come first, and help stands below flags that are long."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = inside("run", VOTE, "--help").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines.index("Parameters of vote:") < lines.index("Options:")
    text = next(line for line in lines if line.startswith("  --args JSON"))
    assert text.endswith("The arguments as one JSON object.")


def test_version(agentrt: Run) -> None:
    assert agentrt("--version").out.startswith("agentrt 0.")


@pytest.mark.slow
def test_doctor_says_whether_the_engine_starts(
    agentrt: Run, inside: Run, model: str, tmp_path: Path
) -> None:
    told = agentrt("doctor", "--model", model, "--json")
    assert told.code == 0, told.err
    assert told.json["engine"].startswith("starts in")
    assert told.json["torch"].startswith("2.")
    broken = inside("doctor", "--model", str(tmp_path))
    assert broken.code == 3
    assert "does not start" in broken.out
    assert "Traceback" not in broken.err
