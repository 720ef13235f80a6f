"""A model for recorded sessions: a long window, a tokenizer of the texts, tools in its prompts."""

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.sessions.ideal import ideal_tokens, prompt_ids
from agentrt.lab.sessions.model import SessionModel, session_model
from agentrt.lab.sessions.recorded import read_recordings
from agentrt.lab.workloads.agent_session import AgentSession
from agentrt.prompt import Codec
from tests.lab.sessions.made_wheel import made_wheel


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[AgentSession, ...]:
    wheel = made_wheel(tmp_path_factory.mktemp("wheel") / "made.whl")
    return read_recordings(wheel)[0].sessions


@pytest.fixture(scope="module")
def model(
    sessions: tuple[AgentSession, ...], tmp_path_factory: pytest.TempPathFactory
) -> SessionModel:
    return session_model("micro", sessions, folder=tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def codec(model: SessionModel) -> Codec:
    return Codec.load(model.path)


def test_the_window_holds_the_longest_recorded_prompt(model: SessionModel, codec: Codec) -> None:
    assert model.shape.window_tokens == codec.window_tokens == 65_536
    assert model.shape.name == "micro-65536"


def test_another_text_or_window_is_another_checkpoint(
    model: SessionModel, sessions: tuple[AgentSession, ...]
) -> None:
    folder = model.path.parent
    again = session_model("micro", sessions, folder=folder)
    assert again == model
    paths = [
        session_model("micro", sessions[:1], folder=folder).path,
        session_model("micro", sessions, 8192, folder=folder).path,
        session_model("micro", (), folder=folder).path,
    ]
    assert len({model.path, *paths}) == 4


def test_prompts_have_tools_calls_and_results(
    codec: Codec, sessions: tuple[AgentSession, ...]
) -> None:
    assert codec.notes == ()
    ids = prompt_ids(codec, sessions[0].turns[1])
    reader = codec.detokenizer(keep_special=True)
    text = reader.feed_ids(ids)
    assert text.startswith("<|begin|><|system|>You keep a garden.")
    assert '\n{"type":"function","function":{"name":"water",' in text
    assert '<|call|>{"name":"water","arguments":{"bed": "bed 0"}}<|/call|><|end|>' in text
    assert text.endswith("<|tool|>bed 0 is wet<|end|><|assistant|>")


def test_prompts_that_grow_extend_each_other(
    codec: Codec, sessions: tuple[AgentSession, ...]
) -> None:
    garden, drift = sessions
    first, second, third = (prompt_ids(codec, turn) for turn in garden.turns)
    assert second[: len(first)] == first
    assert ideal_tokens([first, second])[1] == len(first)
    assert ideal_tokens([first, second, third])[2] < len(first) / 2  # its tools are left out
    counted = [prompt_ids(codec, turn) for turn in drift.turns]
    assert 0 < ideal_tokens(counted)[1] < len(counted[0])


def test_the_embedded_model_keeps_its_window() -> None:
    assert session_model("embedded", ()).shape.window_tokens == 4096
    with pytest.raises(UsageError, match="window of the embedded model is 4096"):
        session_model("embedded", (), 65_536)
