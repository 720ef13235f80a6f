"""Whatever a client sends: it is answered or refused, and the server goes on."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.serve.request_schema import ChatRequest

texts = st.text(max_size=12)
leaves = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts}
)
schemas = st.sampled_from(
    [{}, {"type": "object"}, {"type": "string"}, {"type": 5}, {"$ref": "#"}, {"enum": []}]
)
tools = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": texts, "parameters": schemas | values}),
    }
)
known = {
    "messages": st.lists(messages, max_size=3) | values,
    "tools": st.lists(tools, max_size=2) | values,
    "tool_choice": st.sampled_from(["none", "auto", "required"]) | values,
    "response_format": st.fixed_dictionaries(
        {
            "type": st.just("json_schema"),
            "json_schema": st.fixed_dictionaries({"schema": schemas | values}),
        }
    )
    | values,
    "temperature": st.floats(0, 2),
    "stream": st.booleans(),
}
fields = {name: known.get(name, values) for name in ChatRequest.model_fields}
bodies = st.fixed_dictionaries(
    {"messages": st.lists(messages, min_size=1, max_size=3) | values},
    optional={name: value for name, value in fields.items() if name not in ("model", "messages")},
)


@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=bodies)
def test_a_body_is_answered_or_refused(body: dict[str, Any], portal, own_server_url, wire):
    async def main():
        async with wire.client(own_server_url) as client:
            content = json.dumps({"model": "tiny", "max_tokens": 2, **body})
            headers = {"content-type": "application/json"}
            return await client.post("/chat/completions", content=content, headers=headers)

    response = portal.call(main)
    assert response.status_code in (200, 400), (body, response.text)
    if response.status_code == 400:
        assert response.json()["error"]["message"]


def test_odd_bodies_leave_nothing_behind(portal, own_server_url, wire):
    async def main():
        async with wire.client(own_server_url) as client:
            return (await client.get(client.base_url.copy_with(raw_path=b"/health"))).json()

    assert portal.call(main) == {"status": "ok", "under_way": 0}
