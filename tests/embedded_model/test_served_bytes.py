"""Training and serving see the same bytes: the codec writes what the corpus was rendered to."""

from collections.abc import Sequence

import finance
import pytest
import react
from corpus.example import EMBEDDED, Example, compact, render
from corpus.mix import SHARES, draw
from tokenizers import Tokenizer

from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Open,
    ResultOf,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.prompt import Codec

TOKENIZER = Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))
EXAMPLES = [draw(3, index) for index in range(120)]
OFFERED: dict[str, tuple[ToolSchema, ...]] = {
    "finance": tuple(tool.bind(table=None).spec.schema for tool in finance.TOOLS),
    "react": (react.search.spec.schema, react.growth.spec.schema),
}


@pytest.fixture(scope="module")
def codec() -> Codec:
    """The codec of the shipped model."""
    return Codec.load(EMBEDDED)


def segments(example: Example) -> list[Segment]:
    """The transcript as the language builds it, up to its last answer."""
    found: list[Segment] = []
    waiting: list[CallMade] = []
    for message in example.messages[:-1]:
        found.append(Open(message["role"]))
        if message["role"] == "assistant":
            calls = called(message.get("tool_calls", ()), len(found))
            waiting += calls
            found.append(Generated(message["content"], calls=calls, content=message["content"]))
        else:
            if message["role"] == "tool":
                call = waiting.pop(0)
                found.append(ResultOf(call.call_id, call.name))
            found.append(Text(message["content"]))
        found.append(Close())
    return found


def called(calls: Sequence[dict[str, dict[str, object]]], serial: int) -> tuple[CallMade, ...]:
    """The calls of a message, with ids."""
    made = [(str(c["function"]["name"]), compact(c["function"]["arguments"])) for c in calls]
    return tuple(CallMade(f"c{serial}.{n}", *call) for n, call in enumerate(made))


@pytest.mark.parametrize("kind", SHARES)
def test_codec_writes_what_was_trained_on(codec: Codec, kind: str):
    """The prompt of the last answer, for transcripts of each kind: same text, same ids."""
    examples = [example for example in EXAMPLES if example.kind == kind][:6]
    assert examples
    for example in examples:
        expected = render(example.messages[:-1], example.tools, prompt=True)
        parts = segments(example)
        assert codec.render(OFFERED.get(kind, ()), parts) == expected
        if all("tool_calls" not in message for message in example.messages):
            ids = codec.encode(OFFERED.get(kind, ()), parts).token_ids
            assert list(ids) == TOKENIZER.encode(expected, add_special_tokens=False).ids
