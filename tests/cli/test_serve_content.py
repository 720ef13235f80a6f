"""`agentrt serve --content`: what is kept of the prompts and answers of requests."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.cli.main import answer
from tests.cli.conftest import environment

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which river?"},
    {"role": "assistant", "content": "The Nile."},
    {"role": "user", "content": "And a lake?"},
]


@contextmanager
def serving(folder: Path, *flags: str, **variables: str) -> Iterator[Callable[..., httpx.Response]]:
    """A server of the embedded model in a folder; it is asked to end, and has to."""
    command = [sys.executable, "-m", "agentrt", "serve", "--port", "0", "--threads", "1", *flags]
    with subprocess.Popen(
        command, cwd=folder, env=environment() | variables, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            with httpx.Client(base_url=url, timeout=300, trust_env=False) as client:

                def post(door: str, **body: Any) -> httpx.Response:
                    body = {"model": "embedded", "max_tokens": 4, **body}
                    return client.post(door, json=body).raise_for_status()

                yield post
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_each_request_has_a_transcript_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, "--content", "transcript", AGENTRT_CONTENT="off") as post:
        told = post("/chat/completions", messages=CHAT).json()
        streamed = post("/chat/completions", messages=CHAT[:2], stream=True).text
        post("/completions", prompt="Once upon")
    files = sorted((tmp_path / "traces" / "runs").iterdir())  # by the instant of their beginning
    assert [file.name.split("-")[1] for file in files] == [
        "chat_completion",
        "chat_completion",
        "text_completion",
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    pieces = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    answers = [
        told["choices"][0]["message"]["content"],
        "".join(
            one["choices"][0]["delta"].get("content") or "" for one in pieces if one["choices"]
        ),
    ]
    for file, asked, said in zip(files, (4, 2), answers, strict=False):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        messages = [message for line in lines for message in line.get("messages", ())]
        assert [message["role"] for message in messages] == [one["role"] for one in CHAT[:asked]]
        (node,) = (line for line in lines if line.get("kind") == "generate")
        assert node["answer"]["parts"][0]["content"] == said
    assert answer(["trace", "show", str(files[0]), "--text"]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("Be brief.", "Which river?", "The Nile.", "And a lake?"))


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path) as post:
        post("/chat/completions", messages=CHAT[:2])
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in kept if b"Which river?" in file.read_bytes()]
    assert not list(tmp_path.rglob("*.transcript.jsonl"))


def test_a_file_may_ask_for_transcripts(tmp_path: Path) -> None:
    (tmp_path / "agentrt.toml").write_text('[content]\nkeep = "transcript"\n')
    with serving(tmp_path) as post:
        post("/chat/completions", messages=CHAT[:2])
    (file,) = (tmp_path / "traces" / "runs").iterdir()
    assert "Which river?" in file.read_text("utf-8")


def test_a_place_that_is_none_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert answer(["serve", "--content", "everywhere"]) == 2
    assert "--content 'everywhere' is no place" in capfd.readouterr().err
