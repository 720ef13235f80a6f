"""A run in Arize Phoenix: kinds, messages, tools and tokens, as its own API tells them."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt import UsageError, embedded
from agentrt.cli.main import answer
from agentrt.lab.arms.peer_files import peer_files

pytestmark = pytest.mark.peers
_QUESTION = "How volatile was IBM in 2007?"
_SERVES = "Uvicorn running on"
_SPANS = {"invoke_workflow finance", "chat plan", "execute_tool volatility", "chat report"}
_MOST_ASKED = 2_000


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Client of a Phoenix that holds nothing yet."""
    files = peer_files(embedded.path())
    try:
        files.check("phoenix")
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("", 0)) as other:
        port, grpc_port = (str(listener.getsockname()[1]) for listener in (one, other))
    env = {"HOST": "127.0.0.1", "PORT": port, "GRPC_PORT": grpc_port, "TELEMETRY_ENABLED": "false"}
    env["WORKING_DIR"] = str(tmp_path_factory.mktemp("phoenix"))
    with subprocess.Popen(
        [files.phoenix_program, "serve"],
        env=os.environ | {f"PHOENIX_{name}": value for name, value in env.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            assert any(_SERVES in line for line in server.stdout), "it ended before it served"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                yield client
        finally:
            server.kill()


@pytest.fixture(scope="module")
def spans(phoenix: httpx.Client) -> dict[str, dict[str, Any]]:
    """Spans of a run of the finance program by name, those of the engine's phases left out."""
    finance = Path(__file__).parent.parent.parent / "programs" / "finance.py"
    command = ["run", str(finance), "--question", _QUESTION]
    with pytest.MonkeyPatch.context() as env:
        env.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        assert answer([*command, "--trace", f"otlp={phoenix.base_url}"]) == 0
    for _ in range(_MOST_ASKED):  # it answers before it has stored what it got
        found = phoenix.get("/v1/projects/default/spans", params={"limit": 100})
        named = {one["name"]: one for one in found.raise_for_status().json()["data"]}
        if named.keys() >= _SPANS:
            break
    return {name: one for name, one in named.items() if not name.startswith("engine.")}


def test_spans_have_their_kinds_below_the_run(spans: dict[str, dict[str, Any]]) -> None:
    kinds = {name: one["span_kind"] for name, one in spans.items()}
    root = spans["invoke_workflow finance"]
    assert kinds.pop("invoke_workflow finance") == "CHAIN"
    assert kinds["chat plan"] == kinds["chat report"] == "LLM"
    assert kinds["execute_tool volatility"] == "TOOL"
    for name in kinds:
        assert spans[name]["parent_id"] == root["context"]["span_id"]


def test_a_run_shows_its_question_and_answer(spans: dict[str, dict[str, Any]]) -> None:
    told = spans["invoke_workflow finance"]["attributes"]
    assert told["input.value"] == _QUESTION
    assert "volatility" in told["output.value"]


def test_a_generation_shows_messages_calls_and_tokens(spans: dict[str, dict[str, Any]]) -> None:
    told = spans["chat plan"]["attributes"]
    assert told["llm.model_name"] == "embedded"
    assert told["llm.input_messages.0.message.role"] == "system"
    call = "llm.output_messages.0.message.tool_calls.0.tool_call.function.name"
    assert told[call] == "volatility"
    tokens = (told[f"llm.token_count.{part}"] for part in ("prompt", "completion", "total"))
    prompt, completion, total = tokens
    assert 0 < completion < prompt < total == prompt + completion


def test_a_tool_shows_its_arguments_and_result(spans: dict[str, dict[str, Any]]) -> None:
    told = spans["execute_tool volatility"]["attributes"]
    assert (told["tool.name"], told["tool.parameters.symbol"]) == ("volatility", "IBM")
    assert '"metric":"volatility %"' in told["output.value"]
