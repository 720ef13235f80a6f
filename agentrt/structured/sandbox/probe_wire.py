"""What crosses between the compile service and the process that tries constraints first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.protocol.wire import Wire

Way = Literal["table", "parser"]
"""How a constraint is matched: by a table made ahead, or by a parser as the text grows."""


@dataclass(frozen=True, slots=True)
class TryLimits:
    """What one try may take.

    Attributes:
        cpu_s: Of all its threads.
        wall_s: Seen from outside.
    """

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Learn:
    """The vocabulary of the tries that follow.

    Attributes:
        vocab: It.
        more_bytes: Memory for the tries, beyond what the process has by then.
    """

    vocab: Vocab
    more_bytes: int


@dataclass(frozen=True, slots=True)
class Try:
    """Compile this, and look for its shortest text."""

    spec: ConstraintSpec
    frame: CallFrame
    way: Way
    limits: TryLimits


@dataclass(frozen=True, slots=True)
class ProbeReady:
    """The vocabulary is learnt."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """It compiles, first mask included; the search for its shortest text begins."""


@dataclass(frozen=True, slots=True)
class Closes:
    """The search is over.

    Attributes:
        tokens: The shortest whole text that was found, or None.
    """

    tokens: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ConstraintRefused:
    """It does not compile; the fields of the `ConstraintError`."""

    message: str
    pointer: str
    keyword: str
    hint: str


Order = Learn | Try
Answer = ProbeReady | Compiled | Closes | ConstraintRefused

ORDERS: Wire[Order] = Wire(Learn, Try)
ANSWERS: Wire[Answer] = Wire(ProbeReady, Compiled, Closes, ConstraintRefused)
