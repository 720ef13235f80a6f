"""`agentrt engines`, and engines by name in other commands."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer

FILE = """
[engines.local]
address = "{url}"
model = "tiny"
key = "env:NO_SUCH_KEY"

[engines.open]
address = "{url}"
model = "tiny"

[roles]
planner = "local"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_url: str) -> Path:
    path = tmp_path / "agentrt.toml"
    path.write_text(FILE.format(url=server_url), "utf-8")
    monkeypatch.setenv("AGENTRT_CONFIG", str(path))
    return path


def test_engines_are_listed_without_their_keys(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(["engines"]) == 0
    shown = capsys.readouterr().out
    assert "env:NO_SUCH_KEY (not set)" in shown
    assert "planner" in shown
    monkeypatch.setenv("NO_SUCH_KEY", "canary")
    assert answer(["engines", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "canary" not in shown
    local, free = json.loads(shown)["engines"]
    assert (local["name"], local["key_is_set"], local["roles"]) == ("local", True, ["planner"])
    assert (free["name"], free["key"], free["roles"]) == ("open", "", [])


def test_a_folder_without_engines_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer(["engines"]) == 0
    assert "no engines: there is no agentrt.toml here or above" in capsys.readouterr().out


def test_kinds_are_listed_with_their_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["engines", "--kinds"]) == 0
    shown = capsys.readouterr().out
    assert "max_tokens as max_completion_tokens" in shown
    assert "https://docs.vllm.ai" in shown
    assert answer(["engines", "--kinds", "--json"]) == 0
    kinds = {one["kind"]: one for one in json.loads(capsys.readouterr().out)["kinds"]}
    assert kinds["openai-compatible"]["probed"]
    assert kinds["llama-server"]["constraints"]["choice"] == ["grammar"]


def test_doctor_looks_at_a_server_by_name(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["doctor", "--engine", "open", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["engine"], "tiny" in found["models"]) == ("open", True)
    assert answer(["doctor", "--engine", "open", "--model", "other"]) == 3
    assert "does not list 'other'" in capsys.readouterr().out
    assert answer(["doctor", "--engine", "local"]) == 2, "its key is not set"
    assert "the key of engine local: the variable NO_SUCH_KEY" in capsys.readouterr().out
    assert answer(["doctor", "--engine", "nowhere"]) == 2
    assert "'nowhere' is no engine" in capsys.readouterr().err


PROGRAM = """
from agentrt import chat, program

@program
async def job() -> str:
    return await chat().user("Hi.").generate(max_tokens=4)
"""


@pytest.mark.parametrize("way", ["flag", "variable", "role"])
def test_a_run_takes_an_engine_by_name(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = tmp_path / "job.py"
    file.write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_SUCH_KEY", "any")
    flags = ["run", str(file), "-q", "--trace", "off"]
    if way == "flag":
        flags += ["--engine", "open"]
    elif way == "variable":
        monkeypatch.setenv("AGENTRT_ENGINE", "open")
    else:
        config.write_text(config.read_text("utf-8") + 'default = "open"\n', "utf-8")
    config.write_text(config.read_text("utf-8").replace('"tiny"', '"no-such"'), "utf-8")
    assert answer(flags) != 0
    config.write_text(config.read_text("utf-8").replace('"no-such"', '"tiny"'), "utf-8")
    assert answer(flags) == 0


def test_a_run_refuses_a_wrong_file_before_it_begins(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.py"
    file.write_text(PROGRAM, "utf-8")
    config.write_text("[engines.a]\nkind = 'vlm'\n", "utf-8")
    assert answer(["run", str(file)]) == 2
    assert "engines.a: kind: 'vlm' is no kind of engine" in capsys.readouterr().err
