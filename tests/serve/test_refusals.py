"""What is refused, and in which words."""

import pytest

from agentrt.base.errors import UsageError
from agentrt.serve import ApiKey, ServeConfig

_SCHEMA = "response_format.json_schema"
NAMED = {"type": "function", "function": {"name": "wash"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    },
}


@pytest.mark.parametrize(
    ("fields", "status", "param", "complaint"),
    [
        ({"model": "other"}, 404, "model", "'tiny' is"),
        ({"messages": []}, 400, "messages", "at least 1"),
        ({"messages": [{"role": "king", "content": "x"}]}, 400, "messages.0.role", "'user'"),
        ({"messages": "hi"}, 400, "messages", "valid array"),
        ({"max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
        ({"temperature": 99}, 400, "temperature", "within 0 and 10"),
        ({"temperature": "hot"}, 400, "temperature", "valid number"),
        ({"n": 2}, 400, "n", "should be 1"),
        ({"logprobs": 3}, 400, "logprobs", "boolean"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "less than or equal to 20"),
        ({"top_logprobs": 2}, 400, "top_logprobs", "need logprobs"),
        ({"logit_bias": {"1": 2}}, 400, "logit_bias", "not served here"),
        ({"tool_choice": "required"}, 400, "tool_choice", "no tools"),
        ({"response_format": {"type": "json_schema"}}, 400, _SCHEMA, "required"),
        ({"stop": ["a"] * 17}, 400, "stop", "at most 16"),
        ({"structured_outputs": {}}, 400, "structured_outputs", "asks for nothing"),
        ({"structured_outputs": {"regex": "("}}, 400, "structured_outputs", "regex"),
        ({"tools": [TOOL], "tool_choice": "required"}, 400, "tools", "pattern"),
        ({"ignore_eos": True, "structured_outputs": {"regex": "a"}}, 400, None, "ignore_eos"),
        ({"ignore_eos": True, "tool_choice": "auto"}, 400, "tool_choice", "no tools"),
        ({"ignore_eos": True, "tools": [NAMED], "tool_choice": "required"}, 400, None, "ignore_"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(fields, status, param, complaint, ask):
    response = ask(**fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param), error
    assert complaint in error["message"]
    assert error["type"] == "invalid_request_error"
    assert response.headers["x-should-retry"] == "false"


def test_a_prompt_that_is_too_long_is_told_as_such(ask):
    for stream in (False, True):
        response = ask(text="word " * 5000, stream=stream)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("content", "kind", "status", "complaint"),
    [
        (b"{", "application/json", 400, "the body is not JSON"),
        (b"[]", "application/json", 400, "the body"),
        (b"\xff", "application/json", 400, "the body is not JSON"),
        (
            b'{"model": "m", "messages": [{"role": "user"}], "min_p": 1e999}',
            "application/json",
            400,
            "min_p: input should be",
        ),
        (b"{}", "text/plain", 415, "text/plain"),
        (b" " * (9 << 20), "application/json", 413, "longer than"),
    ],
)
def test_a_body_that_is_no_question(content, kind, status, complaint, portal, own_server_url, wire):
    async def main():
        async with wire.client(own_server_url) as client:
            headers = {"content-type": kind}
            return await client.post("/chat/completions", content=content, headers=headers)

    response = portal.call(main)
    assert response.status_code == status
    assert complaint in response.json()["error"]["message"]


def test_paths_and_methods_that_do_not_exist(portal, own_server_url, wire):
    async def main():
        async with wire.client(own_server_url) as client:
            return await client.get("/nothing"), await client.get("/chat/completions")

    missing, wrong = portal.call(main)
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert "/v1/nothing" in missing.json()["error"]["message"]
    assert {one.json()["error"]["type"] for one in (missing, wrong)} == {"invalid_request_error"}


def test_a_key_is_asked_for_everywhere_but_for_health(portal, own_server, wire):
    good = {"authorization": "Bearer let-me-in"}

    async def main():
        keys = (ApiKey("one", "let-me-in"), ApiKey("two", "let-me-too"))
        async with own_server(keys=keys) as url, wire.client(url) as client:
            return [
                await client.get("/models"),
                await client.get("/models", headers={"authorization": "Bearer let-me-i"}),
                await client.get("/nothing"),
                await client.post("/chat/completions", json=wire.body()),
                await client.get("/models", headers=good),
                await client.post("/chat/completions", json=wire.body(), headers=good),
                await client.get("/models", headers={"authorization": "Bearer let-me-too"}),
                await client.get(client.base_url.copy_with(raw_path=b"/health")),
            ]

    found = portal.call(main)
    assert [response.status_code for response in found] == [401, 401, 401, 401, 200, 200, 200, 200]
    assert "let-me" not in found[1].text


def test_others_are_let_in_only_with_a_key():
    with pytest.raises(UsageError, match="there is no key"):
        ServeConfig("m", host="0.0.0.0")
    config = ServeConfig("m", host="0.0.0.0", keys=(ApiKey("one", "secret"),))
    assert config.keys[0].secret == "secret"
    assert "secret" not in repr(config)
    assert ServeConfig("m", host="::1").host == "::1"


def test_an_address_that_is_taken_is_told(portal, own_server, own_server_url):
    async def main():
        with pytest.raises(UsageError, match=r"nothing can listen.*\. Give another --port"):
            async with own_server(port=int(own_server_url.split(":")[-1].removesuffix("/v1"))):
                raise AssertionError("two servers at one address")

    portal.call(main)


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid", "a" * 70, "a..b"])
def test_an_address_of_no_machine_or_another_is_told(portal, own_server, host):
    key = (ApiKey("one", "secret"),)

    async def main():
        with pytest.raises(UsageError, match=r"nothing can listen.*\. Give --host an address"):
            async with own_server(host=host, keys=key):
                raise AssertionError("a server at the address of another machine")

    portal.call(main)
