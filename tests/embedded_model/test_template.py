"""The wire format, frozen: what the shipped chat template writes."""

import json
from pathlib import Path

import pytest
from corpus.example import EMBEDDED, assistant, assistant_calls, render, system, tool_result, user

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a day.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "day": {"type": "string"}},
            "required": ["town"],
        },
    },
}
CALL = ("weather", {"town": "Ås", "days": [1, 2.5], "on": {"x": None}})
FRAME = (
    '<|call|>{"name":"weather","arguments":{"town":"Ås","days":[1,2.5],"on":{"x":null}}}<|/call|>'
)


@pytest.mark.parametrize(
    ("messages", "tools", "text"),
    [
        pytest.param([user("Hi")], (), "<|begin|><|user|>Hi<|end|>", id="user"),
        pytest.param(
            [system("S"), user("Hi"), assistant("Yes"), user("So")],
            (),
            "<|begin|><|system|>S<|end|><|user|>Hi<|end|><|assistant|>Yes<|end|><|user|>So<|end|>",
            id="turns",
        ),
        pytest.param(
            [system("S"), user("Hi")],
            (WEATHER,),
            "<|begin|><|system|>S\nweather(town,day?) Weather of a day.<|end|><|user|>Hi<|end|>",
            id="tools",
        ),
        pytest.param(
            [user("Hi")],
            (WEATHER,),
            "<|begin|><|system|>\nweather(town,day?) Weather of a day.<|end|><|user|>Hi<|end|>",
            id="tools-without-system",
        ),
        pytest.param(
            [user("Hi"), assistant_calls([CALL, CALL]), tool_result("a\nb"), tool_result("{}")],
            (),
            f"<|begin|><|user|>Hi<|end|><|assistant|>{FRAME}{FRAME}<|end|>"
            "<|tool|>a\nb<|end|><|tool|>{}<|end|>",
            id="calls",
        ),
    ],
)
def test_writes(messages: list[dict[str, object]], tools: tuple[dict[str, object], ...], text: str):
    """Each form, byte for byte; a generation prompt only adds the assistant's marker."""
    assert render(messages, tools) == text
    assert render(messages, tools, prompt=True) == text + "<|assistant|>"


def test_keeps_arguments_that_are_text_already():
    """Arguments given as a string are inserted as they are."""
    call = {"function": {"name": "f", "arguments": '{"a":1}'}}
    text = render([{"role": "assistant", "content": "So", "tool_calls": [call]}])
    assert text.endswith('<|assistant|>So<|call|>{"name":"f","arguments":{"a":1}}<|/call|><|end|>')


def test_is_a_prefix_of_its_continuations():
    """What was rendered stays as it is when messages are added."""
    messages = [system("S"), user("a"), assistant_calls([CALL]), tool_result("x"), assistant("b")]
    whole = render(messages)
    assert all(whole.startswith(render(messages[:count])) for count in range(1, len(messages)))


def test_transformers_renders_the_same(tmp_path: Path):
    """`apply_chat_template` of the library gives the same text and the same ids."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(EMBEDDED))
    messages = [system("S"), user("a é"), assistant_calls([CALL]), tool_result("x"), assistant("b")]
    theirs = tokenizer.apply_chat_template(messages, tools=[WEATHER], tokenize=False)
    assert theirs == render(messages, (WEATHER,))
    ids = tokenizer(theirs, add_special_tokens=False).input_ids
    assert ids == tokenizer.backend_tokenizer.encode(theirs, add_special_tokens=False).ids
    assert json.loads((EMBEDDED / "tokenizer_config.json").read_text())["eos_token"] == "<|end|>"
