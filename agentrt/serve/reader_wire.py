"""Messages between the server and a process that reads bodies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.protocol.wire import Wire
from agentrt.serve.body_routes import BodyRoute
from agentrt.serve.request_builder import CallsIn
from agentrt.serve.request_terms import RequestTerms


@dataclass(frozen=True, slots=True)
class ReaderModel:
    """The model of all bodies.

    Attributes:
        path: Directory of its tokenizer and template.
        fingerprint: Fingerprint of its codec.
        names: Names that requests call it and its adapters by, the model first.
        window_tokens: Context length; 0 if unknown.
        cpu_s: CPU time for each body.
    """

    path: Path
    fingerprint: str
    names: tuple[str, ...]
    window_tokens: int
    cpu_s: float = 4.0


@dataclass(frozen=True, slots=True)
class ReadBody:
    """Read a body.

    Attributes:
        route: Route of the request.
        body: The JSON.
        cache_salt: Salt of the tenant.
    """

    route: BodyRoute
    body: bytes
    cache_salt: str


@dataclass(frozen=True, slots=True)
class ReaderReady:
    """The process has the model's codec, of this fingerprint."""

    fingerprint: str


@dataclass(frozen=True, slots=True)
class BodyRead:
    """A request as it was read.

    Attributes:
        token_ids: Ids of the prompt, as native integers of 32 bits.
        constraint: Constraint of the text.
        calls_in: Places of tool calls in the text.
        options: Sampling and limits, as JSON.
        terms: Terms of the request beside the generation.
    """

    token_ids: bytes
    constraint: ConstraintSpec | None
    calls_in: CallsIn
    options: str
    terms: RequestTerms


@dataclass(frozen=True, slots=True)
class BodyRefused:
    """The request is refused; the fields of the `RequestRefused`."""

    status: int
    message: str
    param: str
    code: str


@dataclass(frozen=True, slots=True)
class ReadingBroke:
    """Reading raised an error that is the server's own."""

    error: str


Order = ReaderModel | ReadBody
Answer = ReaderReady | BodyRead | BodyRefused | ReadingBroke

ORDERS: Wire[Order] = Wire(ReaderModel, ReadBody)
ANSWERS: Wire[Answer] = Wire(ReaderReady, BodyRead, BodyRefused, ReadingBroke)
