"""The request for a generation, in one form of its constraint, as a server takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import ToolSchema
from agentrt.program.messages import messages_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt, TokenPrompt
from agentrt.remote.constraints.constraint_forms import (
    AS_IT_IS,
    AnswerReading,
    ConstraintForm,
    forms_for,
)
from agentrt.remote.constraints.id_forms import id_forms
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
    forms = forms_of_spec(spec, server, prompt.tools if isinstance(prompt, MessagePrompt) else ())
    if request.scored:
        return forms[:1]  # the field of the options itself: others describe the choice
    if not request.thinking_tokens:
        return forms
    # A model that thinks first cannot be forced to call.
    return tuple(one for one in forms if one.output.tools is None or not one.output.tools.forces)


def forms_of_spec(
    spec: ConstraintSpec, server: RemoteServer, tools: Sequence[ToolSchema] = ()
) -> tuple[ConstraintForm, ...]:
    """The forms of a constraint, the surest first.

    Args:
        spec: The constraint.
        server: The server.
        tools: Tools that the chat offers, with their descriptions.

    Raises:
        Unsupported: The server takes it in no form.
    """
    codec = server.codec
    if codec is None:
        return forms_for(spec, server, tools)
    return id_forms(spec, server, codec.call_frame, codec.vocab.special_ids)


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
    if isinstance(prompt, TokenPrompt) is (server.codec is None):
        sent, taken = ("messages", "token ids") if server.codec else ("token ids", "messages")
        raise Unsupported(f"{server.where} takes {taken}, not {sent}")
    thinks = request.thinking_tokens is not None
    if thinks and not server.protocol.thinks:
        raise Unsupported(
            f"{server.where} knows no thinking for a request",
            hint="Leave thinking out, or use the embedded engine",
        )
    if request.scored and (server.tokens is None or not server.tokens.scores):
        raise Unsupported(
            f"{server.where} does not score options",
            hint="Leave scored out, or use agentrt serve with a tokenizer, or the embedded engine",
        )
    parameters = sampling_fields(sampling_of(request), server, left_out(request))
    own = _own_fields(request, server)
    if isinstance(prompt, TokenPrompt):
        token_ids = (*prompt.token_ids, *request.output_ids)
        wire = WireRequest(server.model, (), parameters, own=own, token_ids=token_ids)
    else:
        wire = WireRequest(
            server.model,
            messages_of(prompt.segments),
            parameters,
            thinking_tokens=request.thinking_tokens,
            tools=ToolOffer(prompt.tools, "none") if prompt.tools else None,
            own=own,
        )
    if form is None or request.constraint is None:
        return SentRequest(server.protocol, wire)
    return constrained(server.protocol, wire, request.constraint, form)


def sampling_of(request: GenerateRequest) -> SamplingParams:
    """The sampling parameters of the output behind the part that there is already."""
    written_tokens, sampling = len(request.output_ids), request.sampling
    if not written_tokens:
        return sampling
    return replace(sampling, max_tokens=sampling.max_tokens - written_tokens)


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
    own: Json = {}
    tokens = server.tokens
    if server.codec is not None and tokens is not None:
        own |= tokens.fields
        own |= {tokens.scores: True} if request.scored else {}
        if tokens.end_ids and not request.sampling.ignore_eos:
            own[tokens.end_ids] = list(server.codec.vocab.eos_ids)
    if not request.cache_salt:
        return own
    if not server.takes_cache_salt:
        raise Unsupported(
            f"{server.where} is not known to keep prefixes of different salts apart",
            hint="Leave cache_salt out, or use vLLM, SGLang or the embedded engine",
        )
    return own | {server.fields["cache_salt"]: request.cache_salt}


def _with_instruction(messages: list[Json], words: str) -> list[Json]:
    """Messages with `words` at the end of the system message."""
    if messages and messages[0]["role"] == "system":
        first = messages[0] | {"content": f"{messages[0]['content']}\n{words}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": words}, *messages]
