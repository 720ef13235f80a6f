"""Bodies that have ended a server or an engine, or kept others waiting: each is refused by name."""

import json
import random

import pytest

from tests.structured.test_reference_depth import chain, ring, rules

GOOD = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}


def schema(one):
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": one}}}


def grammar(text):
    return {"structured_outputs": {"grammar": text}}


def tool(parameters, **fields):
    function = {"name": "paint", "parameters": parameters}
    return {"tools": [{"type": "function", "function": function}], **fields}


def said(text, role="user", **fields):
    return {"messages": [{"role": role, "content": text, **fields}]}


def nested(levels):
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"items": value}
    return value


CONSTRAINTS = {
    "references": schema(chain(1_000)),
    "bare references": schema(chain(5_000, bare=True)),
    "references outside of definitions": schema(chain(3_000, {"type": "null"}, where="x")),
    "references of a tool": tool(chain(1_000), tool_choice="required"),
    "rules": grammar(rules(5_000)),
    "brackets": grammar("start: " + "(" * 9_000 + '"x"' + ")" * 9_000),
    "a schema in a grammar": grammar(f"start: %json {json.dumps(chain(1_500))}"),
    "groups": {"structured_outputs": {"regex": "(" * 4_000 + "a" + ")" * 4_000}},
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_constraint_that_ended_the_server_is_refused(name, post):
    response = post({**GOOD, **CONSTRAINTS[name]})
    assert response.status_code == 400, response.text
    assert len(response.text) < 1_000
    assert post(GOOD).status_code == 200


def test_lexemes_in_a_row_are_answered(post):
    """Their masks once took ever longer."""
    answer = post({**GOOD, **grammar("start: /a+/ /a+/ /a+/ /a+/")})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()["choices"][0]["message"]["content"]) == {"a"}
    assert post(GOOD).status_code == 200


def test_a_ring_of_references_is_answered_or_refused(post):
    assert post({**GOOD, **schema(ring(1_500))}).status_code in (200, 400)
    assert post(GOOD).status_code == 200


NUMBERS = {
    "top_k": 10**400,
    "presence_penalty": 1e300,
    "frequency_penalty": -1e300,
    "repetition_penalty": 1e-300,
    "seed": 2**64,
    "temperature": 11,
    "top_p": 0,
    "min_p": 2,
    "max_tokens": 10**18,
    "stop": ["x"] * 50_000,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_ended_the_engine_is_refused_with_its_range(name, post):
    response = post({**GOOD, name: NUMBERS[name]})
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["param"] == name
    assert "Give " in error["message"]
    assert len(error["message"]) < 300


def test_an_integer_too_long_to_read_is_refused(post):
    body = json.dumps(GOOD)[:-1] + ', "top_k": ' + "9" * 100_000 + "}"
    assert post(body).status_code == 400
    assert post(GOOD).status_code == 200


@pytest.mark.parametrize("text", ["a" * 1_000_000, "word " * 200_000, "\U0001f600" * 100_000])
def test_what_cannot_fit_is_refused_by_size(text, post):
    """In bytes: tokens are not counted."""
    response = post({**GOOD, **said(text)})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert "bytes" in error["message"]


LARGE = {
    "an integer near the end of 64 bits": schema({"const": -(2**63) + 1}),
    "such an integer of a tool": tool({"enum": [-(2**63)]}, tool_choice="required"),
    "equal numbers": schema({"items": {"prefixItems": [{"enum": [-(10**18), -1e18]}]}}),
    "parts": said([{"type": "text", "text": "x"}] * 50_000),
    "parts that are none": said([0] * 500_000),
    "messages": {"messages": [{"role": "user", "content": "x"}] * 4_096},
    "messages that are none": {"messages": [0] * 500_000},
    "calls": said(None, "assistant", tool_calls=[{"id": "1", "function": {}}] * 20_000),
    "one word": said("a" * 20_000),
    "digits": said("1" * 20_000),
    "marks": said("e\u0301" * 7_000),
    "stop": {"stop": ["x"] * 400_000},
    "logit_bias": {"logit_bias": {str(token): 1 for token in range(50_000)}},
    "unknown fields": {f"field {index}": 0 for index in range(50_000)},
    "metadata": {"metadata": [[]] * 500_000},
    "tools": tool({"properties": {f"p{index}": {"type": "string"} for index in range(9_000)}}),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_body_is_answered_or_refused(name, post):
    response = post({**GOOD, **LARGE[name]})
    assert response.status_code in (200, 400), response.text
    assert len(response.content) < 2_000


ODD_TEXTS = [
    json.dumps({**GOOD, **said("x")}).replace('"x"', r'"\ud800"'),
    json.dumps({**GOOD, "stop": "x"}).replace('"x"', r'"\udfff"'),
    json.dumps({**GOOD, **tool({"description": "x"})}).replace('"x"', r'"\ud800"'),
]


@pytest.mark.parametrize("body", ODD_TEXTS)
def test_half_of_a_surrogate_pair_is_refused(body, post):
    response = post(body)
    assert response.status_code == 400
    assert "not JSON" in response.json()["error"]["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_tools_with_a_number_that_is_no_json_are_refused(number, choice, post):
    body = json.dumps({**GOOD, **tool({"default": "?"}, tool_choice=choice)})
    response = post(body.replace('"?"', number))
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == "tools"


DEEP = {
    "metadata": '"metadata": ' + "[" * 100_000 + "]" * 100_000,
    "schema": '"response_format": ' + json.dumps(schema({})["response_format"]).replace(
        "{}", '{"items":' * 5_000 + "{}" + "}" * 5_000
    ),
    "schema in its levels": json.dumps(schema(nested(90)))[1:-1],
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_nesting_is_bounded(name, post):
    response = post(json.dumps(GOOD)[:-1] + ", " + DEEP[name] + "}")
    assert response.status_code == 400
    assert len(response.text) < 1_000
    assert post(GOOD).status_code == 200


def test_arguments_that_nest_deeply_are_answered_or_refused(post):
    function = {"name": "paint", "arguments": "[" * 60_000}
    calls = [{"id": "1", "type": "function", "function": function}]
    asked = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}]
    result = {"role": "tool", "tool_call_id": "1", "content": "y"}
    assert post({**GOOD, "messages": [*asked, result]}).status_code in (200, 400)
    assert post(GOOD).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "m" * 100_000},
        {"k" * 100_000: 1},
        {"tool_choice": "x" * 100_000},
        schema({"$ref": "9" * 100_000}),
    ],
)
def test_an_error_repeats_little_of_the_body(fields, post):
    response = post({**GOOD, **fields})
    assert response.status_code in (400, 404)
    assert len(response.content) < 2_000


def test_mutated_bodies_are_answered_or_refused(post):
    dice = random.Random(2)
    base = json.dumps({**GOOD, **schema({"type": "integer", "maximum": 9}), "top_k": 5, "stop": []})
    for _ in range(40):
        mutated = bytearray(base.encode())
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(mutated))
            piece = dice.choice([b'"', b"{", b"]", b"\xff", b"9" * 30, b"null", b"-", b"\x00", b""])
            mutated[at : at + dice.randint(0, 2)] = piece
        if b'"max_tokens": 2,' not in mutated:
            continue  # a long answer is no fault
        assert post(bytes(mutated)).status_code in (200, 400, 404), bytes(mutated)
    assert post(GOOD).status_code == 200


def test_an_error_of_the_server_has_an_id_and_no_internals(caplog):
    from agentrt.base.errors import EngineDied, InternalError
    from agentrt.serve.refusal import refusal_of

    secret = "table = torch.tensor(rows"
    for error in (EngineDied(f"the engine died (signal 11): {secret}", hint=secret),
                  InternalError(secret)):  # fmt: skip
        caplog.clear()
        refused = refusal_of(error)
        assert "torch" not in json.dumps(refused.body())
        error_id = refused.message.partition("(error ")[2].rstrip(")")
        assert error_id
        assert f"error {error_id}" in caplog.text
        assert secret in caplog.text
