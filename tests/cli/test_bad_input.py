"""Whatever goes wrong: what, where, how to mend it, the exit code, and the trace all the same."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.testing.tiny_model import tiny_engine

FINANCE = str(Path(__file__).resolve().parent.parent.parent / "programs" / "finance.py")
VOTE = str(Path(FINANCE).with_name("vote.py"))
QUESTION = "Which returned more from 2005 to 2009, AAPL or IBM?"
Run = Callable[..., Any]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("args", "what", "where", "how"),
    [
        (("run", "absent.py"), "there is no file absent.py", "command line", "FILE[:fn]"),
        (("run", f"{VOTE}:voet"), "has no program `voet`", "vote.py", ":vote"),
        (("run", FINANCE), "needs `question`", "finance.py:", "give --question TEXT"),
        (
            ("run", VOTE, "--question", "a", "--n", "many"),
            "--n input should be a valid integer",
            "vote.py:",
            "give --n INTEGER",
        ),
        (("run", VOTE, "--qestion", "a"), "No such option: --qestion", "command", "--question?"),
        (("run", str(Path(FINANCE).parent)), "programs is a folder", "command", "advisor.py, "),
        (
            ("run", VOTE, "--question", "a", "--engine", "vllm"),
            "is no engine",
            "command",
            "http://",
        ),
        (("run", VOTE, "--data", "a"), "No such option: --data", "command", "run FILE --help"),
        (("run",), "Missing argument 'FILE[:FN]'", "command", "agentrt run FILE --help"),
        (("trace", "show"), "Missing argument 'RUN'", "command", "agentrt trace show --help"),
        (
            ("run", VOTE, "--question"),
            "requires an argument",
            "command",
            "a value behind --question",
        ),
        (("serve", "--speculate", "on"), "No such option", "command", "--speculate-tokens?"),
        (
            ("doctor", "--probe"),
            "--probe is for an engine with",
            "command",
            "--engine NAME|URL too",
        ),
        (("doctor", "--api-key", "env:A"), "--api-key is for an", "command", "--engine NAME|URL"),
        (
            ("doctor", "--engine", "http://a:1", "--weights", "int8"),
            "--weights is for the embedded engine",
            "command",
            "or leave --engine",
        ),
        (
            ("compile", "embeded"),
            "there is no model 'embeded'",
            "command",
            "did you mean embedded?",
        ),
        (("trace", "show", "last", "--wy", "a"), "No such option", "command", "--why?"),
        (
            ("trace", "export", "last", "--format", "x"),
            "'--format': 'x' is not one of",
            "command",
            "trace export --help",
        ),
        (
            ("trace", "export", "last", "--format", "cvs"),
            "'--format': 'cvs' is not one of",
            "command",
            "did you mean csv?",
        ),
        (("run", VOTE, "--quest", "a"), "No such option: --quest", "command", "--question?"),
        (
            ("run", VOTE, "--args", '{"question": 5}'),
            "`question`: input should be a valid string, and it is 5",
            "vote.py:",
            "`question` as TEXT in JSON",
        ),
        (("serve", "--adapter", "judge"), "'judge' is no adapter", "command", "judge=DIR"),
        (("serve", "--adapter", "a b=x"), "'a b' is no name", "command", "letters"),
        (("serve", "--adapter", "a=x", "--adapter", "a=y"), "two adapters", "command", "own"),
        (("serve", "--name", "a", "--adapter", "a=x"), "name of the model", "command", "--name"),
        (("serve", "--adapter", "a=x", "--device", "cuda"), "on a CPU alone", "command", "vLLM"),
        (("serve", "--port", "a"), "'--port'", "command", "agentrt serve --help"),
        (("zzz",), "No such command 'zzz'", "command", "fix:   agentrt --help"),
        (("rn",), "No such command 'rn'", "command line", "did you mean run, runs?"),
        (("run", VOTE, "--deadline", "soon"), "'soon' is no duration", "command", "800ms"),
        (("run", VOTE, "--trace", "zipkin"), "names no place", "command", "otlp="),
        (("run", VOTE, "--args", "{"), "not JSON", "command", "--args JSON"),
        (
            ("run", VOTE, "--question", "a", "--api-key", "env:KEY"),
            "(--api-key) is for an engine with an address",
            "command",
            "--engine URL",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_usage(inside: Run, args: tuple[str, ...], what: str, where: str, how: str) -> None:
    told = inside(*args)
    first, second, third = told.lines
    assert what in first
    assert where in second
    assert how in third
    assert (told.code, told.out) == (2, "")
    assert "Traceback" not in told.err


def failed(told: Any, folder: Path, code: int) -> list[str]:
    """The lines of a run that failed after it began; its trace tells so too."""
    assert told.code == code, told.err
    assert told.out == ""
    traces = list((folder / "traces" / "runs").glob("*.json"))
    assert len(traces) == 1, told.err
    assert json.loads(traces[0].read_text())["data"][0]["spans"]
    assert "Traceback" not in told.err
    assert str(traces[0].relative_to(folder)) in told.err
    lines: list[str] = told.lines
    return lines


def test_an_unreadable_csv(served: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("symbol,date,price\nAAPL,2005-01-01,dear\n")
    told = served(FINANCE, "--question", QUESTION, "--data", "bad.csv")
    what, where, how = failed(told, tmp_path, 1)
    assert "bad.csv" in what
    assert "finance.py:" in where or "market.py:" in where
    assert how.startswith("fix:")


def test_a_model_directory_without_weights(inside: Run, tmp_path: Path) -> None:
    model = tiny_engine(tmp_path / "model").model_path  # a directory as it is before weights
    told = inside("run", VOTE, "--question", "a", "--model", str(model))
    what, _, how = failed(told, tmp_path, 3)
    assert "safetensors" in what + how


def test_an_engine_that_does_not_answer(inside: Run, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    told = inside("run", VOTE, "--question", "a", "--engine", url)
    what, _, how = failed(told, tmp_path, 3)
    assert url in what
    assert how != "fix:"
    assert "compound" not in told.err, "nothing ran"


def test_a_schema_that_cannot_compile(served: Run, program: Write, tmp_path: Path) -> None:
    program(
        "from agentrt import chat, json_schema, program\n"
        "@program\n"
        "async def job() -> object:\n"
        "    shape = json_schema({'properties': {'x': {'not': {'multipleOf': 3}}}})\n"
        "    return await chat().user('a').generate(shape)\n"
    )
    what, where, _ = failed(served("job.py"), tmp_path, 4)
    assert "/properties/x" in what
    assert "not" in what
    assert "job.py:4" in where or "job.py:5" in where


@pytest.mark.slow
def test_a_prompt_that_does_not_fit(
    inside: Run, program: Write, model: str, tmp_path: Path
) -> None:
    program(
        "from agentrt import chat, program\n"
        "@program\n"
        "async def job() -> str:\n"
        "    return await chat().user('word ' * 6000).generate()\n"
    )
    what, where, how = failed(inside("run", "job.py", "--model", model), tmp_path, 1)
    assert "of 4,096 tokens" in what
    assert "job.py:4" in where
    assert how != "fix:"


def test_a_tool_that_fails(served: Run, program: Write, tmp_path: Path) -> None:
    program(
        "from agentrt import program, tool\n"
        "@tool(effects='read')\n"
        "def fetch(x: int) -> int:\n"
        "    raise OSError('the disk is gone')\n"
        "@program\n"
        "async def job() -> int:\n"
        "    return await fetch(3)\n"
    )
    what, where, _ = failed(served("job.py"), tmp_path, 1)
    assert "fetch" in what
    assert "the disk is gone" in what
    assert "job.py:" in where


def test_a_deadline(served: Run, program: Write, tmp_path: Path) -> None:
    program(
        "import anyio\n"
        "from agentrt import program\n"
        "@program\n"
        "async def job() -> int:\n"
        "    await anyio.sleep(60)\n"
        "    return 1\n"
    )
    what, where, how = failed(served("job.py", "--deadline", "100ms"), tmp_path, 5)
    assert "0.1 s" in what
    assert "job.py" in where
    assert "deadline" in how


def test_a_run_goes_on_when_its_engine_dies(agentrt: Run, program: Write, model: str) -> None:
    program(
        "import os, signal, subprocess\n"
        "from pathlib import Path\n"
        "from agentrt import chat, program\n"
        "def children() -> list[int]:\n"
        "    tasks = Path(f'/proc/{os.getpid()}/task').glob('*/children')\n"
        "    return [int(pid) for task in tasks for pid in task.read_text().split()]\n"
        "@program\n"
        "async def job() -> str:\n"
        "    answer = chat().user('a').generate(max_tokens=300, ignore_eos=True)\n"
        "    pieces = []\n"
        "    async for piece in answer.stream():\n"
        "        for pid in children() if not pieces else ():\n"
        "            os.kill(pid, signal.SIGKILL)\n"
        "        pieces.append(piece)\n"
        "    return str(''.join(pieces) == await answer)\n"
    )
    told = agentrt("run", "job.py", "--model", model)
    assert (told.code, told.out.strip()) == (0, "True")


def test_a_program_that_raises(served: Run, program: Write, tmp_path: Path) -> None:
    program("from agentrt import program\n@program\nasync def job() -> int:\n    return int('x')\n")
    what, where, how = failed(served("job.py"), tmp_path, 1)
    assert "ValueError" in what
    assert "job.py:4" in where
    assert "-v" in how


@pytest.mark.parametrize("group", ["trace", "runs"])
def test_a_group_of_commands_shows_its_help(inside: Run, group: str) -> None:
    told = inside(group)
    assert (told.code, told.err) == (0, "")
    assert f"Usage: agentrt {group}" in told.out
    assert len(told.out.splitlines()) > 5


def test_a_file_that_is_no_text_needs_another_one(inside: Run, folder_here: Path) -> None:
    (folder_here / "in.jsonl").write_bytes(b"\xff")
    for name, how in (("in.jsonl", "a file of UTF-8 text"), ("none.jsonl", "a file that exists")):
        told = inside("run", VOTE, "--batch", name)
        assert told.code == 2
        assert f"give --batch {how}" in told.lines[2]


def test_verbose_shows_the_traceback(inside: Run, program: Write) -> None:
    program("1 / 0\n")
    assert "Traceback" in inside("run", "job.py", "-v").err
    assert "Traceback" not in inside("run", "job.py").err


@pytest.mark.parametrize("result", ["float('nan')", "'a' + chr(0xD800)"])
def test_a_result_that_cannot_be_printed(
    served: Run, program: Write, tmp_path: Path, result: str
) -> None:
    program(
        f"from agentrt import program\n@program\nasync def job() -> object:\n    return {result}\n"
    )
    first, second, third = failed(served("job.py"), tmp_path, 1)
    assert "cannot be printed" in first
    assert second == "where: job.py:2 in job"
    assert "return text, numbers" in third


def test_a_result_that_cannot_be_written(served_outside: Run, program: Write) -> None:
    program("from agentrt import program\n@program\nasync def job() -> int:\n    return 1\n")
    with open("/dev/full", "w") as full:
        told = served_outside("job.py", stdout=full)
    assert told.code == 2
    assert "cannot be written to standard output: " in told.lines[0]
    assert "Traceback" not in told.err


def test_parameters_may_be_named_as_ours(served: Run, program: Write) -> None:
    program(
        "from agentrt import program\n\n"
        "@program\nasync def job(program: str) -> str:\n    return program\n"
    )
    told = served("job.py", "--program", "x")
    assert (told.code, told.out) == (0, "x\n"), told.err


def test_a_tool_that_never_ends_does_not_hold_the_command(
    served_outside: Run, program: Write, tmp_path: Path
) -> None:
    program(
        "import threading\nfrom agentrt import program, tool\n\n"
        '@tool(effects="read")\ndef wait() -> None:\n    "Waits."\n    threading.Event().wait()\n\n'
        "@program\nasync def job() -> None:\n    await wait()\n"
    )
    first, _, third = failed(served_outside("job.py", "--deadline", "100ms"), tmp_path, 5)
    assert "DeadlineExceeded" in first
    assert "Raise the deadline" in third
