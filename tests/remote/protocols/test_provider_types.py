"""Bodies by the types that the providers' own packages declare for requests."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from pydantic import TypeAdapter

from agentrt.remote.body import build_request
from tests.remote.protocols.requests import bodies, server_of, thinking

TYPES = {
    "chat_completions": (
        "openai",
        "openai.types.chat.completion_create_params",
        "CompletionCreateParamsStreaming",
    ),
    "responses": (
        "openai",
        "openai.types.responses.response_create_params",
        "ResponseCreateParamsStreaming",
    ),
    "messages": (
        "anthropic",
        "anthropic.types.message_create_params",
        "MessageCreateParamsStreaming",
    ),
}
OF_EARLIER_MODELS = {"messages": {"temperature", "top_p"}}
"""Parameters that models before Opus 4.7 take; the package of today does not declare them."""


def read(value: Any) -> None:
    """Read a value to its end: pydantic checks what can be iterated only while it is read."""
    if isinstance(value, dict):
        for one in value.values():
            read(one)
    elif isinstance(value, list | tuple | Iterator) or type(value).__name__ == "ValidatorIterator":
        for one in value:
            read(one)


@pytest.mark.parametrize("protocol", TYPES)
def test_every_body_is_of_the_providers_type(protocol):
    package, module, name = TYPES[protocol]
    pytest.importorskip(package)
    declared = getattr(import_module(module), name)
    adapter = TypeAdapter(declared)
    known = declared.__required_keys__ | declared.__optional_keys__
    known |= OF_EARLIER_MODELS.get(protocol, set())
    found = dict(bodies(protocol))
    if protocol == "messages":
        asked = thinking(2000, max_tokens=4000)
        found["thinking"] = build_request(asked, server_of(protocol)).body
    for what, body in found.items():
        assert body.keys() <= known, what
        read(adapter.validate_python(body))
