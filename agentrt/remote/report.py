"""Report of a server: constraints that it enforces, and those that are only checked."""

from __future__ import annotations

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.remote.constraints.constraint_forms import forms_for
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
        "server": server.family or "of no known family",
        "window": f"{server.window_tokens} tokens" if server.window_tokens else "unknown",
    }
    for name, spec in _KINDS.items():
        form = forms_for(spec, server)[0]
        found[name] = f"{'enforced' if form.enforced else 'checked'} ({form.name})"
    if server.fixed:
        found["not sent"] = ", ".join(sorted(server.fixed))
    return found
