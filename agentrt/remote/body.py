"""The body of a chat completions request for a generation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.sampling_params import SamplingParams
from agentrt.program.messages import messages_of
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.remote.constraint_dialects import (
    ConstraintDialect,
    dialect_for,
    tools_instruction,
    tools_of,
)

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
    """

    where: str
    model: str
    family: str = ""
    limit_field: str = "max_tokens"
    window_tokens: int = 0
    proven: dict[ConstraintKind, tuple[ConstraintDialect, ...]] = field(default_factory=dict)

    @property
    def takes_cache_salt(self) -> bool:
        """Whether the server keeps prefixes of different salts apart: vLLM's own field."""
        return self.family == "vllm"


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request ready to be sent.

    Attributes:
        body: The JSON.
        compact: Whether white space between JSON tokens must be removed.
        max_calls: Calls after which the rest is dropped; 0 without a limit.
    """

    body: Json
    compact: bool = False
    max_calls: int = 0


def build_request(request: GenerateRequest, server: RemoteServer) -> SentRequest:
    """`request` in the form of this server.

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
    messages = messages_of(prompt.segments)
    body: Json = {"model": server.model, "messages": messages}
    body |= _sampling(request.sampling, server)
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.cache_salt:
        if not server.takes_cache_salt:
            raise Unsupported(
                f"{server.where} is not known to keep prefixes of different salts apart",
                hint="Leave cache_salt out, or use vLLM or the embedded engine",
            )
        body["cache_salt"] = request.cache_salt
    spec = request.constraint
    if spec is not None and request.sampling.ignore_eos:
        raise Unsupported("ignore_eos goes on where the constraint ends its output")
    dialect = dialect_for(spec, server.proven, server.where) if spec is not None else None
    if prompt.tools:
        body |= {"tools": tools_of(prompt.tools), "tool_choice": "none"}
    if spec is None or dialect is None:
        return SentRequest(body)
    return constrained(body, spec, dialect)


def constrained(body: Json, spec: ConstraintSpec, dialect: ConstraintDialect) -> SentRequest:
    """`body` with `spec` in this dialect."""
    new = body | dialect.fields(_described(spec, body.get("tools", ())))
    if spec.kind != "calls":
        return SentRequest(new, dialect.compact)
    if dialect.compact:
        tools = _described(spec, body.get("tools", ())).tools
        words = tools_instruction(tools, final=bool(spec.source))
        new["messages"] = _with_instruction(body["messages"], words)
        new.pop("tools", None)
        new.pop("tool_choice", None)
        return SentRequest(new, dialect.compact)
    return SentRequest(new, max_calls=spec.max_calls)


def _described(spec: ConstraintSpec, listed: Iterable[Json]) -> ConstraintSpec:
    """The constraint as it is held, with the tools' descriptions, which only the prompt has."""
    if spec.kind != "calls":
        return spec
    words = {tool["function"]["name"]: tool["function"]["description"] for tool in listed}
    from agentrt.structured import held_tools  # native libraries come along

    held = held_tools(spec)
    tools = tuple(replace(one.schema, description=words.get(one.schema.name, "")) for one in held)
    return replace(spec, tools=tools, is_raw=False)


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
