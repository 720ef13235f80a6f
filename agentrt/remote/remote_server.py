"""`RemoteServer`: what is known of one server and its model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from agentrt.base.constraint_spec import ConstraintKind
from agentrt.base.engines.engine_kind import ANY_KIND, EngineKind, KindHint, engine_kind
from agentrt.base.engines.kind_tokens import KindTokens
from agentrt.base.record import record
from agentrt.remote.constraints.constraint_dialects import ConstraintDialect
from agentrt.remote.protocols import WIRE_PROTOCOLS, WireProtocol

if TYPE_CHECKING:
    from agentrt.prompt import Codec

MAY_BE_FIXED = ("temperature", "seed")
"""Parameters that are always sent, and that reasoning models refuse."""

_KIND_OF_FAMILY = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama-server"}


def field_names(kind: EngineKind) -> Mapping[str, str]:
    """Field of each sampling parameter that a kind of server takes."""
    return {parameter: one.field for parameter, one in kind.fields.items()}


def _fields_of_any() -> Mapping[str, str]:
    return field_names(engine_kind(ANY_KIND))


@record
class RemoteServer:
    """Known properties of the server.

    Attributes:
        where: Address, for messages.
        model: Name of the model in requests.
        family: "vllm", "sglang", "llamacpp" or "" if unknown.
        fields: Field of each sampling parameter that it takes.
        window_tokens: Context length; 0 if unknown.
        proven: Constraint dialects that it enforces, by kind of constraint.
        fixed: Sampling parameters that the model does not let be chosen; they are not sent.
        takes_bounds: Whether a strict schema may have lengths, ranges and patterns.
        protocol: Protocol that it speaks.
        hints: Hints about requests that it takes, as far as it has refused none.
        codec: Codec of its model, if prompts are sent as token ids; else None.
        tokens: The door of its kind for token ids, with a codec.
        compared: Whether it has shown that its tokenizer is that of the codec.
    """

    where: str
    model: str
    family: str = ""
    fields: Mapping[str, str] = field(default_factory=_fields_of_any)
    window_tokens: int = 0
    proven: dict[ConstraintKind, tuple[ConstraintDialect, ...]] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    takes_bounds: bool = True
    protocol: WireProtocol = WIRE_PROTOCOLS["chat_completions"]
    hints: tuple[KindHint, ...] = ()
    codec: Codec | None = None
    tokens: KindTokens | None = None
    compared: bool = False

    @property
    def takes_cache_salt(self) -> bool:
        """Whether the server keeps prefixes of different salts apart: vLLM's own field."""
        return "cache_salt" in self.fields

    @property
    def takes_any_schema(self) -> bool:
        """Whether its schemas are compiled by a grammar library, not by a hosted API."""
        return bool(self.family)

    @property
    def takes_loose_schemas(self) -> bool:
        """Whether it takes a schema that the model is not held to."""
        return self.protocol.takes_loose_schemas

    @property
    def enforced(self) -> frozenset[ConstraintKind]:
        """Kinds of constraints to which it holds the model, in one form or another."""
        kinds = set(self.proven)
        return frozenset(kinds | ({"choice"} if kinds & {"json", "regex"} else set()))

    def of_family(self, family: str) -> RemoteServer:
        """The server as one of a family, which has fields of its own."""
        if not family:
            return self
        kind = engine_kind(_KIND_OF_FAMILY[family])
        return replace(self, family=family, fields=field_names(kind))

    def after_refusal(self, message: str) -> RemoteServer | None:
        """The server as a refusal of a parameter shows it; None if it names no such parameter."""
        if self.fields["max_tokens"] == "max_tokens" and "max_completion_tokens" in message:
            return self.with_limit_field("max_completion_tokens")
        for hint in self.hints:
            if _names(message, hint.field):
                return replace(self, hints=tuple(one for one in self.hints if one != hint))
        for name in MAY_BE_FIXED:
            if name not in self.fixed and _names(message, name):
                return replace(self, fixed=self.fixed | {name})
        return None

    def with_limit_field(self, name: str) -> RemoteServer:
        """The server with another field for max_tokens."""
        return replace(self, fields={**self.fields, "max_tokens": name})


def _names(message: str, parameter: str) -> bool:
    return re.search(rf"\b{parameter}\b", message) is not None
