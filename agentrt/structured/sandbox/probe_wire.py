"""Messages between the compile service and the sandbox process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.wire import Wire
from agentrt.structured.json_schema.declaration_wire import ConstraintRefused

MatchMethod = Literal["table", "parser"]
"""Method of matching: a table built ahead, or a parser as the text grows."""


@dataclass(frozen=True, slots=True)
class TryLimits:
    """Limits of one try.

    Attributes:
        cpu_s: CPU time of all its threads.
        wall_s: Elapsed time, seen from outside.
    """

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Learn:
    """The vocabulary of the following tries.

    Attributes:
        vocab: The vocabulary.
        more_bytes: Memory for the tries, beyond that in use by then.
    """

    vocab: Vocab
    more_bytes: int


@dataclass(frozen=True, slots=True)
class Try:
    """Compile this, and search for its shortest text."""

    spec: ConstraintSpec
    frame: CallFrame
    method: MatchMethod
    limits: TryLimits


@dataclass(frozen=True, slots=True)
class ProbeReady:
    """The tables of the vocabulary are built."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The constraint compiles, first mask included; the search for its shortest text begins."""


@dataclass(frozen=True, slots=True)
class Closes:
    """The search is over.

    Attributes:
        tokens: The shortest complete text found, or None.
        least_tokens: A number of tokens that no output falls below.
        why_open: Reason why no text was found; "" if one was.
    """

    tokens: tuple[int, ...] | None
    least_tokens: int
    why_open: str


Order = Learn | Try
Answer = ProbeReady | Compiled | Closes | ConstraintRefused

ORDERS: Wire[Order] = Wire(Learn, Try)
ANSWERS: Wire[Answer] = Wire(ProbeReady, Compiled, Closes, ConstraintRefused)
