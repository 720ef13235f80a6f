"""Sessions by name and by number: recordings, replicas of their own text, and draws that fit."""

from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.base.errors import UsageError
from agentrt.lab.sessions.ideal import prompt_ids
from agentrt.lab.sessions.recorded import Recording, read_recordings
from agentrt.lab.sessions.source import RecordedSource, drawn_source, named_tasks
from agentrt.prompt import Codec
from tests.lab.sessions.made_wheel import made_wheel


@pytest.fixture
def recordings(tmp_path: Path) -> tuple[Recording, ...]:
    return read_recordings(made_wheel(tmp_path / "made.whl"))


def test_tasks_have_names(recordings: tuple[Recording, ...]) -> None:
    assert [one.name for one in named_tasks(recordings, ["made-v1"])] == ["garden", "drift"]
    assert [one.name for one in named_tasks(recordings, ["drift", "made-v1"])] == [
        "drift",
        "garden",
    ]
    with pytest.raises(UsageError, match="--trace weeds is not known") as error:
        named_tasks(recordings, ["weeds"])
    assert "made-v1" in (error.value.hint or "")


def test_replicas_share_no_text(recordings: tuple[Recording, ...]) -> None:
    source = RecordedSource(named_tasks(recordings, ["made-v1"]))
    names = [source.session(number).name for number in range(5)]
    assert names == ["garden", "drift", "garden#1", "drift#1", "garden#2"]
    begin = [source.session(number).turns[0].messages[0].text[:9] for number in (0, 2, 4)]
    assert begin == ["You keep ", "Agent 1.\n", "Agent 2.\n"]


def test_drawn_sessions_fit_the_window() -> None:
    path = Path(embedded.path())
    codec = Codec.load(path)
    source = drawn_source(path / "tokenizer.json", 4096, {}, seed=2)
    longest = 0
    for number in range(3):
        session = source.session(number)
        last = session.turns[-1]
        tokens = len(prompt_ids(codec, last)) + last.output_tokens
        assert tokens <= 4096
        longest = max(longest, tokens)
    assert longest > 1000
    assert source.session(1) == source.session(1)
