"""Chats are immutable, read as messages, and hold data as data."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from agentrt import Chat, UsageError, chat
from agentrt.base.canonical_json import dumps
from agentrt.base.segments import CallMade, Close, Open, ResultOf, Text
from agentrt.program.prompt_prefix import prompt_segments, since_answer

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 1 + 1?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a":1,"b":1}'},
            }
        ],
    },
    {"role": "tool", "content": "2", "tool_call_id": "c1", "name": "add"},
    {"role": "assistant", "content": "2."},
]


def test_each_method_gives_a_longer_chat() -> None:
    base = chat(system="Be brief.")
    one, other = base.user("a", "", "b"), base.user("c")
    assert prompt_segments(base) == [Open("system"), Text("Be brief."), Close()]
    assert prompt_segments(one) == [
        *prompt_segments(base),
        Open("user"),
        Text("a"),
        Text("b"),
        Close(),
    ]
    assert prompt_segments(other)[-2] == Text("c")
    assert repr(one) == "<Chat system user>"


def test_messages_there_and_back() -> None:
    read = Chat.of(CONVERSATION)
    assert read.messages() == CONVERSATION
    assert prompt_segments(read)[6:10] == [
        Open("assistant"),
        CallMade("c1", "add", '{"a":1,"b":1}'),
        Close(),
        Open("tool"),
    ]
    assert ResultOf("c1", "add") in prompt_segments(read)


def test_pydantic_reads_and_writes_a_chat() -> None:
    read = TypeAdapter(Chat).validate_json(dumps(CONVERSATION))
    assert isinstance(read, Chat)
    assert dumps(read) == dumps(CONVERSATION)
    assert TypeAdapter(Chat).validate_python(read) is read
    assert TypeAdapter(Chat).json_schema()["type"] == "array"


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"role": "robot", "content": "x"}, "role 'robot'"),
        ({"content": "x"}, "role"),
        ("hello", "message 0"),
        ({"role": "user", "content": ["x"]}, "no text"),
        ({"role": "user", "content": "x", "colour": "red"}, "unknown keys"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
            "message 0",
        ),
    ],
)
def test_what_is_no_message_is_refused(message: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Chat.of([message])


def test_a_part_must_be_text_or_a_node() -> None:
    with pytest.raises(UsageError, match=r"a part of a user message is int.*str\(x\)"):
        chat().user("n = ", 3)  # type: ignore[arg-type]


def test_fork_says_the_same_chat_aloud() -> None:
    base = chat(system="x")
    draft, guard = base.fork(2, names=("draft", "guard"))
    assert prompt_segments(draft) == prompt_segments(guard) == prompt_segments(base)
    assert (draft.label, guard.label) == ("draft", "guard")
    assert len(base.fork(3)) == 3
    with pytest.raises(UsageError, match="does not fit"):
        base.fork(2, names=("only",))
    with pytest.raises(UsageError, match="does not fit"):
        base.fork(0)


def test_recent_stops_at_the_root() -> None:
    base = chat(system="x")
    longer = base.user("a").user("b")
    assert since_answer(longer)[0] is longer
    assert base in since_answer(longer)
