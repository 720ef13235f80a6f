"""Calls over the wire: every answer is text, or calls of the offered tools that fit them."""

import json

import jsonschema
import pytest

BOOK = {
    "type": "object",
    "properties": {
        "seats": {"type": "integer", "minimum": 1, "maximum": 4},
        "row": {"type": "string", "pattern": "^[A-F][0-9]$"},
        "when": {"enum": ["noon", "night"]},
    },
    "required": ["seats", "row"],
    "additionalProperties": False,
}
CANCEL = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 100, "maximum": 999}},
    "required": ["id"],
    "additionalProperties": False,
}
PARAMETERS = {"book": BOOK, "cancel": CANCEL}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in PARAMETERS.items()
]
ANSWER = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}},
    "required": ["mood"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}


def message_of(response):
    assert response.status_code == 200, response.text
    one = response.json()["choices"][0]
    calls = one["message"].get("tool_calls", [])
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        jsonschema.validate(arguments, PARAMETERS[call["function"]["name"]])
    assert (one["finish_reason"] == "tool_calls") == bool(calls) or one["finish_reason"] == "length"
    return one["message"]["content"], calls


@pytest.fixture
def opening(codec):
    """What opens a call."""
    return codec.call_frame.first + codec.call_frame.before


def test_auto_gives_text_or_calls_that_fit(ask, opening):
    """A random model is as likely as not to open a call, and breaks every schema it can."""
    made = 0
    for seed in range(40):
        told = ask(tools=TOOLS, tool_choice="auto", max_tokens=96, temperature=1.5, seed=seed)
        content, calls = message_of(told)
        assert opening not in (content or "")
        made += len(calls)
    assert made


def test_auto_is_the_default_and_streams_alike(ask, wire):
    fields = {"tools": TOOLS, "max_tokens": 96, "temperature": 1.5}
    for seed in range(6):
        content, calls = message_of(ask(seed=seed, **fields))
        streamed = wire.events(ask(seed=seed, stream=True, **fields).text)
        deltas = [chunk["choices"][0]["delta"] for chunk in streamed if chunk["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == (content or "")
        functions = [one["function"] for delta in deltas for one in delta.get("tool_calls", ())]
        assert functions == [call["function"] for call in calls]


def test_one_call_at_most_unless_parallel(ask):
    for seed in range(12):
        fields = {"tools": TOOLS, "parallel_tool_calls": False, "max_tokens": 160}
        _, calls = message_of(ask(temperature=1.5, seed=seed, **fields))
        assert len(calls) <= 1


def test_an_answer_has_its_form_or_is_calls(ask):
    """Tools and a form together: a final answer in the form, or calls."""
    kinds = set()
    for seed in range(20):
        fields = {"tools": TOOLS, "response_format": FORM, "max_tokens": 96}
        content, calls = message_of(ask(temperature=1.5, seed=seed, **fields))
        kinds.add(bool(calls))
        if not calls:
            jsonschema.validate(json.loads(content), ANSWER)
    assert kinds == {True, False}


def test_tools_and_json_without_a_schema(ask):
    fields = {"tools": TOOLS, "response_format": {"type": "json_object"}, "max_tokens": 200}
    content, calls = message_of(ask(temperature=1.0, seed=3, **fields))
    assert calls or isinstance(json.loads(content), dict)


LOOSE = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_strict_is_refused_where_it_cannot_be_held(ask, choice):
    function = {"name": "sort", "parameters": LOOSE, "strict": True}
    tools = [{"type": "function", "function": function}]
    refused = ask(tools=tools, tool_choice=choice)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "tools"
    assert "uniqueItems" in refused.json()["error"]["message"]
    loose = [{"type": "function", "function": {**function, "strict": False}}]
    assert ask(tools=loose, tool_choice=choice, max_tokens=64).status_code == 200


def call_tag(name, schema):
    return {"begin": f"<function={name}>", "schema": schema, "end": "</function>"}


LEGACY = {
    "type": "structural_tag",
    "structures": [call_tag("book", BOOK), call_tag("cancel", CANCEL)],
    "triggers": ["<function="],
}
TAGS = [
    {
        "type": "tag",
        "begin": f"<function={name}>",
        "content": {"type": "json_schema", "json_schema": schema},
        "end": "</function>",
    }
    for name, schema in PARAMETERS.items()
]
TRIGGERED = {"type": "triggered_tags", "triggers": ["<function="], "tags": TAGS}


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": LEGACY},
        {"response_format": {"type": "structural_tag", "format": TRIGGERED}},
        {"structured_outputs": {"structural_tag": json.dumps(LEGACY)}},
    ],
    ids=["structures", "format", "structured_outputs"],
)
def test_tags_hold_their_schemas(ask, fields):
    for seed in range(8):
        told = ask(max_tokens=96, temperature=1.5, seed=seed, **fields)
        assert told.status_code == 200, told.text
        one = told.json()["choices"][0]
        _check_tags(one["message"]["content"])


def test_a_tag_is_there_if_one_is_wanted(ask):
    wanted = {"type": "structural_tag", "format": {**TRIGGERED, "at_least_one": True}}
    for seed in range(4):
        told = ask(max_tokens=96, temperature=1.5, seed=seed, response_format=wanted)
        one = told.json()["choices"][0]
        assert _check_tags(one["message"]["content"]) or one["finish_reason"] == "length"


def _check_tags(text):
    """Number of tags in a text, of which each fits its schema."""
    _, *parts = text.split("<function=")
    for part in parts:
        name, _, rest = part.partition(">")
        arguments, end, _ = rest.partition("</function>")
        assert end
        jsonschema.validate(json.loads(arguments), PARAMETERS[name])
    return len(parts)


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"type": "structural_tag"}, "structures"),
        ({"type": "structural_tag", "format": {"type": "or", "elements": []}}, "triggered_tags"),
        ({"type": "structural_tag", "structures": [], "triggers": ["<"]}, "tag"),
        ({**LEGACY, "triggers": ["<other"]}, "trigger"),
        ({"type": "structural_tag", "format": {**TRIGGERED, "stop_after_first": True}}, "stop_"),
    ],
)
def test_other_tags_are_refused(ask, form, complaint):
    refused = ask(response_format=form)
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert error["param"].startswith("response_format")
    assert complaint in error["message"]
