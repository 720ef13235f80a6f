"""Report of a server: constraints that it enforces, and those that are only checked."""

from __future__ import annotations

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.remote.body import forms_of_spec
from agentrt.remote.opening.probe import QUESTIONS
from agentrt.remote.remote_server import RemoteServer

_CALLS = QUESTIONS["calls"].spec
_KINDS: dict[str, ConstraintSpec] = {
    **{kind: question.spec for kind, question in QUESTIONS.items()},
    "list": ConstraintSpec("json", '{"type":"array","items":{"type":"integer"}}'),
    "step": ConstraintSpec("calls", QUESTIONS["json"].spec.source, tools=_CALLS.tools),
}


def report_of(server: RemoteServer) -> dict[str, str]:
    """The report by name: the model, and the form of each kind of constraint."""
    found = {
        "model": server.model,
        "server": f"of the family of {server.family}" if server.family else "of no known family",
        "window": f"{server.window_tokens} tokens" if server.window_tokens else "unknown",
    }
    found["prompts"] = "messages (give tokenizer = DIRECTORY to send token ids)"
    if server.codec is not None:
        agrees = "the same there" if server.compared else "not compared: the server shows none"
        found["prompts"] = f"token ids (tokenizer of {server.codec.path}, {agrees})"
    elif server.protocol.name != "chat_completions":
        found["prompts"] = "messages"
    for name, spec in _KINDS.items():
        form = forms_of_spec(spec, server)[0]
        found[name] = f"{'enforced' if form.enforced else 'checked'} ({form.name})"
    if server.fixed:
        found["not sent"] = ", ".join(sorted(server.fixed))
    return found
