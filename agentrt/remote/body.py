"""The body of a chat completions request for a generation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.sampling_params import SamplingParams
from agentrt.program.messages import messages_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.remote.constraint_dialects import ConstraintDialect, tools_of
from agentrt.remote.constraint_forms import AS_IT_IS, AnswerReading, ConstraintForm, forms_for

Json = dict[str, Any]

SEED_LIMIT = 1 << 31  # llama.cpp and some others take 32 bits


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """Known properties of the server.

    Attributes:
        where: Address, for messages.
        model: Name of the model in requests.
        family: "vllm", "sglang", "llamacpp" or "" if unknown.
        limit_field: Name of the server's field for max_tokens.
        window_tokens: Context length; 0 if unknown.
        proven: Constraint dialects that it enforces, by kind of constraint.
        fixed: Sampling parameters that the model does not let be chosen; they are not sent.
        takes_bounds: Whether a strict schema may have lengths, ranges and patterns.
    """

    where: str
    model: str
    family: str = ""
    limit_field: str = "max_tokens"
    window_tokens: int = 0
    proven: dict[ConstraintKind, tuple[ConstraintDialect, ...]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    takes_bounds: bool = True

    @property
    def takes_cache_salt(self) -> bool:
        """Whether the server keeps prefixes of different salts apart: vLLM's own field."""
        return self.family == "vllm"

    @property
    def takes_any_schema(self) -> bool:
        """Whether its schemas are compiled by a grammar library, not by a hosted API."""
        return bool(self.family)

    @property
    def enforced(self) -> frozenset[ConstraintKind]:
        """Kinds of constraints to which it holds the model, in one form or another."""
        kinds = set(self.proven)
        return frozenset(kinds | ({"choice"} if kinds & {"json", "regex"} else set()))

    def after_refusal(self, message: str) -> RemoteServer | None:
        """The server as a refusal of a parameter shows it; None if it names no such parameter."""
        if self.limit_field == "max_tokens" and "max_completion_tokens" in message:
            return replace(self, limit_field="max_completion_tokens")
        for name in MAY_BE_FIXED:
            if name not in self.fixed and _names(message, name):
                return replace(self, fixed=self.fixed | {name})
        return None


MAY_BE_FIXED = ("temperature", "seed")
"""Parameters that are always sent, and that reasoning models refuse."""


def _names(message: str, parameter: str) -> bool:
    return re.search(rf"\b{parameter}\b", message) is not None


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request ready to be sent.

    Attributes:
        body: The JSON.
        form: Form of its constraint; None without one.
        max_calls: Calls after which the rest is dropped; 0 without a limit.
    """

    body: Json
    form: ConstraintForm | None = None
    max_calls: int = 0

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
    return forms_for(spec, server, prompt.tools if isinstance(prompt, MessagePrompt) else ())


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
    if request.thinking_tokens is not None or request.scored:
        feature = "scored" if request.scored else "thinking"
        raise Unsupported(
            f"{server.where} knows no {feature} for a request",
            hint=f"Leave {feature} out, or use the embedded engine",
        )
    body: Json = {"model": server.model, "messages": messages_of(prompt.segments)}
    body |= _sampling(request.sampling, server)
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.cache_salt:
        if not server.takes_cache_salt:
            raise Unsupported(
                f"{server.where} is not known to keep prefixes of different salts apart",
                hint="Leave cache_salt out, or use vLLM or the embedded engine",
            )
        body["cache_salt"] = request.cache_salt
    if prompt.tools:
        body |= {"tools": tools_of(prompt.tools), "tool_choice": "none"}
    if form is None or request.constraint is None:
        return SentRequest(body)
    return constrained(body, request.constraint, form)


def constrained(body: Json, spec: ConstraintSpec, form: ConstraintForm) -> SentRequest:
    """`body` with a constraint in this form."""
    new = body | form.fields
    if form.hides_tools:
        new.pop("tools", None)
        new.pop("tool_choice", None)
    if form.instruction:
        new["messages"] = _with_instruction(body["messages"], form.instruction)
    counts = spec.kind == "calls" and "tools" in form.fields
    return SentRequest(new, form, spec.max_calls if counts else 0)


def _with_instruction(messages: list[Json], words: str) -> list[Json]:
    """Messages with `words` at the end of the system message."""
    if messages and messages[0]["role"] == "system":
        first = messages[0] | {"content": f"{messages[0]['content']}\n{words}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": words}, *messages]


def _sampling(sampling: SamplingParams, server: RemoteServer) -> Json:
    body: Json = {
        server.limit_field: sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": sampling.seed % SEED_LIMIT,
    }
    body = {name: value for name, value in body.items() if name not in server.fixed}
    if sampling.logprobs:
        raise Unsupported(f"{server.where}: logprobs of a remote engine have no token ids")
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body | _given(sampling, _OPENAI) | _extensions(sampling, server)


def _extensions(sampling: SamplingParams, server: RemoteServer) -> Json:
    """Parameters beyond OpenAI's; an unknown server would drop them silently."""
    extra = _given(sampling, _EXTENSIONS)
    if extra and not server.family:
        raise Unsupported(
            f"{server.where} is not known to take {', '.join(extra)}",
            hint="Leave these out, or use vLLM, SGLang, llama.cpp or the embedded engine",
        )
    names = _OWN_NAMES.get(server.family, {})
    return {names.get(name, name): value for name, value in extra.items()}


def _given(sampling: SamplingParams, names: Iterable[str]) -> Json:
    """Parameters that differ from their defaults."""
    return {
        name: value
        for name in names
        if (value := getattr(sampling, name)) != getattr(_DEFAULT, name)
    }


_DEFAULT = SamplingParams()
_OPENAI = ("top_p", "presence_penalty", "frequency_penalty")
_EXTENSIONS = ("ignore_eos", "top_k", "min_p", "repetition_penalty")
_OWN_NAMES = {"llamacpp": {"repetition_penalty": "repeat_penalty"}}
