"""Message content stays out of traces unless asked for; secrets always do."""

import json
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
)
from agentrt.telemetry import Span, build
from agentrt.telemetry.content import (
    LIMIT_BYTES,
    capture_of,
    redact,
    redact_deep,
    sanitize,
    sanitize_json,
    sanitize_text,
    truncate,
)

RUN = RunId("00000000000000a1")
MESSAGES = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "my key is sk-abcdefghijkl"}]}]
)


def chat_span(capture: Any) -> Span:
    record = RunRecord()
    told: dict[str, Any] = {"gen_ai.input.messages": MESSAGES, "gen_ai.request.max_tokens": 9}
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, NodeId("p"), "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(
                RUN, NodeId("p/g"), "generate", "g", NodeId("p"), (), "p.py:2", 5.0, attributes=told
            ),
            RequestSent(RUN, NodeId("p/g"), RequestId(1), "embedded", "tiny", True, 5.1),
            NodeFinished(RUN, NodeId("p/g"), "ok", 6.0),
            NodeFinished(RUN, NodeId("p"), "ok", 6.0),
            RunFinished(RUN, "ok", 6.0),
        ]
    )
    return build(record, capture).spans[1]


def test_content_is_left_out() -> None:
    span = chat_span("NO_CONTENT")
    assert "gen_ai.input.messages" not in span.attributes
    assert span.attributes["gen_ai.request.max_tokens"] == 9
    assert not span.events


def test_content_asked_for_is_redacted() -> None:
    span = chat_span("SPAN_ONLY")
    messages = json.loads(str(span.attributes["gen_ai.input.messages"]))
    assert messages[0]["parts"][0]["content"] == "my key is [redacted]"


def test_content_may_go_to_an_event() -> None:
    span = chat_span("EVENT_ONLY")
    assert "gen_ai.input.messages" not in span.attributes
    (event,) = span.events
    assert event.name == "gen_ai.client.inference.operation.details"
    assert event.attributes["gen_ai.operation.name"] == "chat"  # required, as it may stand alone
    assert event.attributes["gen_ai.request.model"] == "tiny"
    assert "sk-" not in str(event.attributes)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("", "NO_CONTENT"),
        ("no_content", "NO_CONTENT"),
        ("SPAN_ONLY", "SPAN_ONLY"),
        ("span_and_event", "SPAN_AND_EVENT"),
        ("true", "SPAN_ONLY"),
        ("everything", "NO_CONTENT"),
    ],
)
def test_the_variable_is_read(said: str, meant: str) -> None:
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    assert capture_of({name: said}) == meant


def test_secret_keys_and_values_are_redacted() -> None:
    cleaned = sanitize(
        {
            "http.request.header.authorization": "Bearer abcdefghijklmn",
            "api_key": "x",
            "gen_ai.usage.input_tokens": 5,
            "agentrt.note": "call with Bearer abcdefghijklmn now",
        }
    )
    assert cleaned == {
        "http.request.header.authorization": "[redacted]",
        "api_key": "[redacted]",
        "gen_ai.usage.input_tokens": 5,
        "agentrt.note": "call with [redacted] now",
    }


def test_texts_somewhere_under_a_secret_key_are_left_out() -> None:
    given = {
        "access_token": "abc",
        "token": "abc",
        "cookies": {"session": ["abc"], "age": 3},
        "max_tokens": "all",
        "name": "Ada",
    }
    assert redact_deep(given) == {
        "access_token": "[redacted]",
        "token": "[redacted]",
        "cookies": {"session": ["[redacted]"], "age": 3},
        "max_tokens": "all",
        "name": "Ada",
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"user": "Ada", "password": "abc"}', '{"user":"Ada","password":"[redacted]"}'),
        ('[{"api_key": "abc"}]', '[{"api_key":"[redacted]"}]'),
        ('{"user": "Ada", "password": null}', '{"user": "Ada", "password": null}'),
        ('{"password": "abc", ', '{"password": "abc", '),  # no JSON
        ("[" * 100_000 + '"password"', "[" * 100_000 + '"password"'),
    ],
)
def test_a_text_that_is_json_loses_what_is_under_secret_keys(text: str, kept: str) -> None:
    assert redact(text) == kept


@pytest.mark.parametrize(
    "value",
    [
        {"text": "é" * 20_000, "password": "hidden"},
        [{"content": "x" * 5000} for _ in range(40)],
        {f"k{n}": "y" * 900 for n in range(300)},
        {f"k{n}": n for n in range(9000)},
        "z" * 50_000,
    ],
)
def test_long_json_is_cut_and_stays_json(value: Any) -> None:
    text = sanitize_json(json.dumps(value))
    assert len(text.encode()) <= LIMIT_BYTES
    json.loads(text)
    assert "hidden" not in text


def test_long_text_is_cut_between_characters() -> None:
    shortened = truncate("é" * 10_000)
    assert len(shortened.encode()) <= LIMIT_BYTES
    assert shortened.endswith("…")
    assert truncate("short") == "short"


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_text_that_is_nested_too_deeply_is_cut_as_text(text: str) -> None:
    assert sanitize_json(text) == truncate(text)


@pytest.mark.parametrize("much", [1, LIMIT_BYTES])
def test_half_of_a_surrogate_pair_is_replaced(much: int) -> None:
    """As in the name of a file that is no UTF-8: no trace could be written with it."""
    name = "\udcff" * much
    for text in (sanitize_json(json.dumps({name: [name]})), sanitize_text(name)):
        assert len(text.encode()) <= LIMIT_BYTES
        assert "?" in text
