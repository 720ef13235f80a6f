"""`WireProtocol`: one way to write requests and to read answers. All else is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from agentrt.base.record import record
from agentrt.remote.constraints.requested_output import OutputSchema, ToolOffer
from agentrt.remote.protocols.answer_parts import AnswerPart

Json = dict[str, Any]


@record
class WireRequest:
    """A request, in no protocol yet.

    Attributes:
        model: Name of the model.
        messages: The chat: `role` and `content`, `tool_calls` of an assistant, `tool_call_id` of a
            tool.
        parameters: Sampling parameters, by the names of the server's fields.
        schema: Schema of the text of the answer; None without one.
        tools: Tools that are offered; None without any.
        thinking_tokens: Most tokens of reasoning; None leaves it to the model.
        own: Fields that this server alone knows.
        token_ids: The prompt, for a protocol that takes ids; it has no messages then.
    """

    model: str
    messages: Sequence[Json]
    parameters: Mapping[str, Any]
    schema: OutputSchema | None = None
    tools: ToolOffer | None = None
    thinking_tokens: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    token_ids: Sequence[int] = ()


class EventReader(Protocol):
    """Reader of the events of one answer.

    Attributes:
        ended: Whether the answer has ended, although the connection may stay open.
    """

    ended: bool

    def parts(self, event: Json) -> Sequence[AnswerPart]:
        """The parts of the answer in one event.

        Raises:
            Malformed: The event does not have the shape of the protocol.
        """


class WireProtocol(Protocol):
    """One protocol. Which one a server speaks is part of its kind."""

    @property
    def name(self) -> str:
        """Name in settings and kinds."""

    @property
    def path(self) -> str:
        """Path of generations, behind the address."""

    @property
    def models_path(self) -> str:
        """Path of the list of all models."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of each request."""

    @property
    def account_headers(self) -> Mapping[str, str]:
        """Header of each setting of the account: of "organisation" and "project"."""

    @property
    def takes_loose_schemas(self) -> bool:
        """Whether a schema may be given that the model is not held to."""

    @property
    def thinks(self) -> bool:
        """Whether a request may have a thinking budget."""

    def key_header(self, key: str) -> tuple[str, str]:
        """Name and value of the header that carries a key."""

    def body(self, request: WireRequest) -> Json:
        """The body of a request for a streamed answer.

        Raises:
            Unsupported: The protocol has no words for a part of it.
        """

    def reader(self) -> EventReader:
        """The reader of one answer."""
