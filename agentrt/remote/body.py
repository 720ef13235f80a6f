"""The request for a generation, in one form of its constraint, as a server takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.record import record
from agentrt.program.messages import messages_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.remote.constraints.constraint_forms import (
    AS_IT_IS,
    AnswerReading,
    ConstraintForm,
    forms_for,
)
from agentrt.remote.constraints.requested_output import ToolOffer
from agentrt.remote.protocols import WireProtocol, WireRequest
from agentrt.remote.remote_server import RemoteServer
from agentrt.remote.sampling_fields import sampling_fields

Json = dict[str, Any]


@record
class SentRequest:
    """A request ready to be sent.

    Attributes:
        protocol: Protocol in which it is written.
        wire: The request before it was written.
        form: Form of its constraint; None without one.
        max_calls: Calls after which the rest is dropped; 0 without a limit.
    """

    protocol: WireProtocol
    wire: WireRequest
    form: ConstraintForm | None = None
    max_calls: int = 0

    @property
    def body(self) -> Json:
        """The JSON.

        Raises:
            Unsupported: The protocol has no words for a part of it.
        """
        return self.protocol.body(self.wire)

    @property
    def reading(self) -> AnswerReading:
        """How the answer is taken out of its form."""
        return AS_IT_IS if self.form is None else self.form.reading


def forms_of(request: GenerateRequest, server: RemoteServer) -> tuple[ConstraintForm | None, ...]:
    """The forms in which a request can be sent, the surest first.

    Raises:
        Unsupported: The server takes its constraint in no form.
    """
    spec, prompt = request.constraint, request.prompt
    if spec is None:
        return (None,)
    if request.sampling.ignore_eos:
        raise Unsupported("ignore_eos goes on where the constraint ends its output")
    forms = forms_for(spec, server, prompt.tools if isinstance(prompt, MessagePrompt) else ())
    if not request.thinking_tokens:
        return forms
    # A model that thinks first cannot be forced to call.
    return tuple(one for one in forms if one.output.tools is None or not one.output.tools.forces)


def left_out(request: GenerateRequest) -> frozenset[str]:
    """Sampling parameters that a request leaves out: a model that thinks sets the temperature."""
    return frozenset({"temperature"}) if request.thinking_tokens else frozenset()


def build_request(
    request: GenerateRequest, server: RemoteServer, form: ConstraintForm | None = None
) -> SentRequest:
    """`request` as this server takes it.

    Args:
        request: The request.
        server: The server.
        form: Form of its constraint; None without one.

    Raises:
        Unsupported: The server lacks a requested feature.
    """
    prompt = request.prompt
    if not isinstance(prompt, MessagePrompt):
        raise Unsupported(f"{server.where} takes messages, not token ids")
    thinks = request.thinking_tokens is not None
    if (thinks and not server.protocol.thinks) or request.scored:
        feature = "scored" if request.scored else "thinking"
        raise Unsupported(
            f"{server.where} knows no {feature} for a request",
            hint=f"Leave {feature} out, or use the embedded engine",
        )
    wire = WireRequest(
        server.model,
        messages_of(prompt.segments),
        sampling_fields(request.sampling, server, left_out(request)),
        thinking_tokens=request.thinking_tokens,
        tools=ToolOffer(prompt.tools, "none") if prompt.tools else None,
        own=_own_fields(request, server),
    )
    if form is None or request.constraint is None:
        return SentRequest(server.protocol, wire)
    return constrained(server.protocol, wire, request.constraint, form)


def constrained(
    protocol: WireProtocol, wire: WireRequest, spec: ConstraintSpec, form: ConstraintForm
) -> SentRequest:
    """A request with a constraint in this form."""
    output = form.output
    new = replace(
        wire,
        schema=output.schema,
        tools=None if form.hides_tools else output.tools or wire.tools,
        own={**wire.own, **output.own},
    )
    if form.instruction:
        new = replace(new, messages=_with_instruction(list(wire.messages), form.instruction))
    counts = spec.kind == "calls" and output.tools is not None
    return SentRequest(protocol, new, form, spec.max_calls if counts else 0)


def _own_fields(request: GenerateRequest, server: RemoteServer) -> Mapping[str, Any]:
    """Fields that only some servers know."""
    if not request.cache_salt:
        return {}
    if not server.takes_cache_salt:
        raise Unsupported(
            f"{server.where} is not known to keep prefixes of different salts apart",
            hint="Leave cache_salt out, or use vLLM or the embedded engine",
        )
    return {server.fields["cache_salt"]: request.cache_salt}


def _with_instruction(messages: list[Json], words: str) -> list[Json]:
    """Messages with `words` at the end of the system message."""
    if messages and messages[0]["role"] == "system":
        first = messages[0] | {"content": f"{messages[0]['content']}\n{words}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": words}, *messages]
