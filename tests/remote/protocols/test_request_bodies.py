"""Bodies of requests in each protocol: by the strict rules, and field by field."""

import json

import pytest

from agentrt.base.errors import Unsupported
from agentrt.remote.body import build_request, forms_of
from tests.remote import strict_messages, strict_responses, strict_rules
from tests.remote.protocols.requests import (
    ANSWERED,
    CALLED,
    CHATS,
    PRICE,
    RESULTS,
    SPECS,
    SYSTEM,
    USER,
    bodies,
    request,
    server_of,
    thinking,
)


def faults(protocol, body):
    match protocol:
        case "messages":
            return list(strict_messages.faults(body))
        case "responses":
            return list(strict_responses.faults(body))
    wrong = strict_rules.refusal(body, bounds=True, reasons=False)
    return [wrong] if wrong else []


@pytest.mark.parametrize("protocol", ["chat_completions", "messages", "responses"])
def test_no_body_breaks_a_documented_rule(protocol):
    found = {name: faults(protocol, body) for name, body in bodies(protocol)}
    assert len(found) >= len(CHATS) * len(SPECS)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def body_of(protocol, asked):
    server = server_of(protocol)
    return build_request(asked, server, forms_of(asked, server)[0]).body


def test_turns_of_messages_alternate():
    found = body_of("messages", request(CHATS["behind results"]))
    assert found["system"] == "Be brief."
    assert [turn["role"] for turn in found["messages"]] == ["user", "assistant"] * 2 + ["user"]
    call, other = found["messages"][1]["content"][1:]
    assert call == {"type": "tool_use", "id": "c1", "name": "price", "input": {"symbol": "IBM"}}
    assert found["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "120.5"},
        {"type": "tool_result", "tool_use_id": "c2"},
    ]
    assert other["name"] == "news"
    assert [tool["name"] for tool in found["tools"]] == ["price", "news"]
    assert found["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize("segments", [(*USER, *ANSWERED), (*USER, *CALLED)])
def test_messages_go_on_with_no_words_of_the_assistant(segments):
    with pytest.raises(Unsupported, match="ends with a message of the assistant"):
        body_of("messages", request(segments))


def test_messages_name_parameters_in_their_own_words():
    found = body_of("messages", request(max_tokens=9, stop=("x",), top_k=3, temperature=0.5))
    assert found["stop_sequences"] == ["x"]
    assert (found["max_tokens"], found["top_k"], found["temperature"]) == (9, 3, 0.5)
    assert "seed" not in found
    with pytest.raises(Unsupported, match="presence_penalty"):
        body_of("messages", request(presence_penalty=1.0))


@pytest.mark.parametrize(
    ("output", "choice"),
    [
        ("calls", {"type": "any"}),
        ("one call", {"type": "any", "disable_parallel_tool_use": True}),
        ("text", {"type": "auto"}),
    ],
)
def test_messages_choose_tools_in_their_own_words(output, choice):
    found = body_of("messages", request(USER, (PRICE,), SPECS[output]))
    assert found["tool_choice"] == choice


def test_a_schema_of_messages_has_no_bounds():
    found = body_of("messages", request(spec=SPECS["object"]))
    schema = found["output_config"]["format"]["schema"]
    assert schema["additionalProperties"] is False
    assert "minimum" not in json.dumps(schema)


def test_a_thinking_budget_is_sent_and_leaves_the_temperature_to_the_model():
    found = body_of("messages", thinking(2000, max_tokens=4000))
    assert found["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert "temperature" not in found
    assert body_of("messages", thinking(0))["thinking"] == {"type": "disabled"}
    assert faults("messages", found) == []


def test_a_model_that_thinks_is_not_forced_to_call():
    asked = thinking(2000, USER, tools=(PRICE,), spec=SPECS["calls"], max_tokens=4000)
    server = server_of("messages")
    choices = [build_request(asked, server, form).body.get("tool_choice") for form in forms_of(asked, server)]  # fmt: skip  # noqa: E501
    assert {"type": "auto"} in choices
    assert {"type": "any"} not in choices


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (thinking(100), "less than"),
        (thinking(2000, (*USER, *CALLED, *RESULTS), max_tokens=4000), "behind the results"),
    ],
)
def test_a_budget_that_messages_cannot_have_is_refused(asked, match):
    with pytest.raises(Unsupported, match=match):
        body_of("messages", asked)


def test_other_protocols_hold_no_thinking_budget():
    for protocol in ("chat_completions", "responses"):
        with pytest.raises(Unsupported, match="thinking"):
            body_of(protocol, thinking(2000))


def test_responses_have_items_and_store_nothing():
    found = body_of("responses", request((*SYSTEM, *USER, *CALLED, *RESULTS), max_tokens=99))
    assert found["instructions"] == "Be brief."
    kinds = [item.get("type", item.get("role")) for item in found["input"]]
    assert kinds == ["user", "assistant", *["function_call"] * 2, *["function_call_output"] * 2]
    assert (found["store"], found["max_output_tokens"]) == (False, 99)


def test_responses_have_their_schema_in_text_format():
    found = body_of("responses", request(spec=SPECS["integer"]))["text"]["format"]
    assert (found["type"], found["name"], found["strict"]) == ("json_schema", "output", True)
    assert found["schema"]["properties"] == {"value": {"type": "integer"}}


def test_responses_take_no_fewer_than_sixteen_tokens():
    with pytest.raises(Unsupported, match="max_tokens=9"):
        body_of("responses", request(max_tokens=9))
