"""The application by itself: bugs of its own, and clients that leave."""

import asyncio
import json

from agentrt.serve import Application
from agentrt.serve.metrics import ServerLoad
from agentrt.serve.prompt_size import body_limit

SECRET = "/home/someone/model.safetensors"


class Broken:
    """A model with a bug."""

    name = "m"
    names = ("m",)
    under_way = started_at_unix_s = window_tokens = 0
    body_limit = body_limit(0, 0)
    load = ServerLoad(0, 0)

    @property
    def down(self):
        raise RuntimeError(SECRET)


def answered(path, *events, method="GET", headers=(), send_fails=False):
    """The events of an answer."""
    sent, waiting = [], list(events)

    async def receive():
        return waiting.pop(0)

    async def send(event):
        sent.append(event)
        if send_fails and len(sent) == 2:
            raise RuntimeError(SECRET)

    scope = {"type": "http", "path": path, "method": method, "headers": list(headers)}
    asyncio.run(Application(Broken())(scope, receive, send))  # type: ignore[arg-type]
    return sent


def test_a_bug_is_an_answer_with_an_id_and_no_internals(caplog):
    start, body = answered("/health")
    assert start["status"] == 500
    message = json.loads(body["body"])["error"]["message"]
    error_id = message.partition("(error ")[2].rstrip(")")
    assert error_id
    assert SECRET not in message
    assert f"error {error_id}" in caplog.text
    assert SECRET in caplog.text


def test_a_bug_behind_the_head_sends_no_second_head(caplog):
    sent = answered("/v1/models", send_fails=True)
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]


def test_a_client_that_leaves_within_its_body_has_no_answer():
    headers = [(b"content-type", b"application/json")]
    events = (
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    )
    path = "/v1/chat/completions"
    assert answered(path, *events, method="POST", headers=headers) == []
