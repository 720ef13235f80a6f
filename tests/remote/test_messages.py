"""Segments become messages, and constraints become the fields of a server's own way."""

import json
from dataclasses import replace

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import InternalError, NotYetKnown, Unsupported
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import (
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    ResultOf,
    Text,
    ToolSchema,
)
from agentrt.program.messages import messages_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.remote.body import build_request, forms_of
from agentrt.remote.constraints.constraint_dialects import DIALECTS
from agentrt.remote.remote_server import RemoteServer

PRICE = ToolSchema("price", "Price of a stock.", {"type": "object", "properties": {}})
CALL = CallMade("c1", "price", '{"symbol":"IBM"}')
TOLD = {"id": "c1", "type": "function", "function": {"name": "price", "arguments": CALL.arguments_json}}  # fmt: skip  # noqa: E501


def test_messages_say_what_the_segments_say():
    segments = (
        *(Open("system"), Text("Be brief."), Close()),
        *(Open("user"), Text("Price of "), Text("IBM?"), Close()),
        *(Open("assistant"), Generated("See. [{", calls=(CALL,), content="See."), Close()),
        *(Open("tool"), ResultOf("c1", "price"), Text("120.5"), Close()),
        *(Open("assistant"), Generated("It is 120.5."), Close()),
    )  # fmt: skip
    assert messages_of(segments) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Price of IBM?"},
        {"role": "assistant", "content": "See.", "tool_calls": [TOLD]},
        {"role": "tool", "content": "120.5", "tool_call_id": "c1", "name": "price"},
        {"role": "assistant", "content": "It is 120.5."},
    ]


@pytest.mark.parametrize(
    "segments",
    [
        (Text("loose"),),
        (Open("user"), Text("open")),
        (Open("user"), Open("user")),
    ],
)
def test_what_are_not_whole_messages_is_our_own_bug(segments):
    with pytest.raises(InternalError):
        messages_of(segments)


def test_a_pending_part_has_no_message_yet():
    with pytest.raises(NotYetKnown):
        messages_of((Open("user"), Hole("n"), Close()))


def request(spec=None, tools=(), **sampling):
    return GenerateRequest(
        request_id=RequestId(1),
        run_id=RunId("0" * 16),
        node_id=NodeId("n"),
        site="",
        prompt=MessagePrompt((Open("user"), Text("hi"), Close()), tools),
        sampling=SamplingParams(**sampling),
        constraint=spec,
    )


ALL = RemoteServer("http://here/v1", "m", proven={kind: tuple(ways) for kind, ways in DIALECTS.items()}).of_family("vllm")  # fmt: skip  # noqa: E501
NONE = RemoteServer("http://here/v1", "m")


def first(asked, server):
    """The request in its surest form, and the form."""
    form = forms_of(asked, server)[0]
    return build_request(asked, server, form), form


def test_sampling_becomes_fields():
    body = build_request(
        request(max_tokens=7, temperature=0.5, top_k=3, seed=2**40, stop=("x",)), ALL
    ).body
    assert body["max_tokens"] == 7
    assert (body["temperature"], body["top_k"], body["stop"]) == (0.5, 3, ["x"])
    assert 0 <= body["seed"] < 2**31
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize(
    "sampling", [{"top_k": 3}, {"min_p": 0.1}, {"repetition_penalty": 1.1}, {"ignore_eos": True}]
)
def test_what_an_unknown_server_may_drop_is_refused(sampling):
    with pytest.raises(Unsupported, match="not known to take"):
        build_request(request(**sampling), NONE)


def test_an_output_that_nothing_ends_is_asked_for_where_it_is_known():
    assert build_request(request(ignore_eos=True), ALL).body["ignore_eos"] is True
    assert "ignore_eos" not in build_request(request(), ALL).body
    with pytest.raises(Unsupported, match="ignore_eos goes on where"):
        forms_of(request(ConstraintSpec("choice", options=("a",)), ignore_eos=True), ALL)


def test_tools_of_a_chat_stay_in_sight_without_being_called():
    body = build_request(request(tools=(PRICE,)), ALL).body
    assert body["tools"][0]["function"]["name"] == "price"
    assert body["tool_choice"] == "none"


CALLS = ConstraintSpec("calls", tools=(PRICE,), max_calls=3)


def test_calls_go_through_tools_where_that_is_enough():
    asked, form = first(request(CALLS, (PRICE,)), ALL)
    assert (asked.body["tool_choice"], asked.body["parallel_tool_calls"]) == ("required", True)
    assert (asked.max_calls, form.enforced) == (3, True)


FINAL = '{"type":"integer"}'


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        (ConstraintSpec("calls", FINAL, tools=(PRICE,)), 1),
        (ConstraintSpec("calls", tools=(PRICE,), min_calls=2), 2),
        (ConstraintSpec("calls", tools=(PRICE,), min_calls=0), 0),
    ],
)
def test_calls_that_tools_cannot_say_are_held_by_a_schema(spec, least):
    asked, form = first(request(spec, (PRICE,)), ALL)
    schema = asked.body["response_format"]["json_schema"]["schema"]
    calls = schema["anyOf"][0] if spec.source else schema
    assert calls["minItems"] == least
    assert calls["items"]["anyOf"][0]["properties"]["name"] == {"const": "price"}
    assert "tools" not in asked.body
    assert "price" in asked.body["messages"][0]["content"]
    assert form.reading.compact
    assert form.enforced
    if spec.source:
        assert schema["anyOf"][1] == json.loads(FINAL)


def test_text_around_calls_is_checked():
    """Servers promise nothing of the arguments of calls that a model may or may not make."""
    spec = ConstraintSpec("calls", tools=(PRICE,), min_calls=0, text=True)
    asked, form = first(request(spec, (PRICE,)), ALL)
    assert asked.body["tool_choice"] == "auto"
    assert not form.enforced
    with pytest.raises(Unsupported, match="tools beside free text"):
        forms_of(request(spec, (PRICE,)), NONE)


@pytest.mark.parametrize("kind", list(DIALECTS))
def test_nothing_unproven_is_sent(kind):
    spec = ConstraintSpec(kind, source="{}", options=("a",), tools=(PRICE,))
    asked, form = first(request(spec, (PRICE,)), NONE)
    assert not asked.body.keys() & {"response_format", "structured_outputs", "regex", "grammar"}
    assert asked.body.get("tool_choice", "none") == "none"
    assert not form.enforced
    assert form.instruction in asked.body["messages"][0]["content"]


def test_tools_alone_do_not_hold_a_final_answer():
    server = RemoteServer("http://here/v1", "m", proven={"calls": tuple(DIALECTS["calls"])})
    spec = ConstraintSpec("calls", FINAL, tools=(PRICE,))
    asked, form = first(request(spec, (PRICE,)), server)
    assert asked.body["tool_choice"] == "auto"
    assert not form.enforced


def test_a_salt_is_passed_on_only_where_it_is_known():
    salted = replace(request(), cache_salt="a")
    assert build_request(salted, ALL).body["cache_salt"] == "a"
    assert "cache_salt" not in build_request(request(), ALL).body
    for server in (NONE, NONE.of_family("llamacpp")):
        with pytest.raises(Unsupported, match="salts"):
            build_request(salted, server)
