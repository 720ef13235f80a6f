"""Statements of programs that never were, for `made_up.play`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A generation or tool call. Others are named by the order of declaration.

    Attributes:
        kind: "generate" or "tool".
        deps: Earlier nodes whose values it needs.
        plan: The earlier generation and item that started it.
        before_s: From ready to handed over.
        queue_s: Waiting for engine or worker.
        early_s: Prefill that can be done before the last hole is filled.
        prefill_s: Prefill after that.
        decode_s: Decoding, or the tool's own time.
        after_s: From done to visible.
        items: Of a streamed output, closing at even distances while it is decoded.
    """

    kind: str
    deps: tuple[int, ...] = ()
    plan: tuple[int, int] | None = None
    before_s: float = 0.0
    queue_s: float = 0.0
    early_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    after_s: float = 0.0
    items: int = 0


@dataclass(frozen=True, slots=True)
class WaitStatement:
    """The code awaits an earlier node, or one item of it."""

    node: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class ThinkStatement:
    """The code itself takes time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallStatement:
    """The code calls a program, which runs beside it."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Race:
    """The code waits for the first of several to end, cancels the others and waits for them.

    Nothing else may need one of these nodes.
    """

    works: tuple[Work, ...]


Statement = Work | WaitStatement | ThinkStatement | CallStatement | Race
