"""Errors that the author of a program can mend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentrt.base.errors.root import AgentrtError
from agentrt.base.record import record
from agentrt.base.run_progress import RunProgress

_NOTHING_TO_CLOSE = "Raise the deadline, or give these nodes less to do"


class ProgramError(AgentrtError):
    """A fault that the author of the program can mend; not worth a retry as it is.

    Example:
        >>> from agentrt import CheckFailed, ProgramError
        >>> issubclass(CheckFailed, ProgramError)
        True
    """


class UsageError(ProgramError):
    """A wrong flag, argument, file or setting; the hint says what to give instead.

    Example:
        >>> from agentrt import chat
        >>> chat(history="all")
        Traceback (most recent call last):
        agentrt.base.errors.program_errors.UsageError: history='all' is unknown. Give ...
    """

    exit_code = 2


class NoRun(ProgramError, RuntimeError):
    """A node was made outside a run; make nodes in programs.

    Example:
        >>> from agentrt import chat
        >>> chat().user("Name a river.").generate()
        Traceback (most recent call last):
        agentrt.base.errors.program_errors.NoRun: generate was used outside a run. Start a run: ...
    """

    default_hint = "Start a run: `program.run(...)`, or `await runtime.run(program, ...)`"


class NotYetKnown(ProgramError, TypeError):
    """A pending node was used as if it were its value; await it first.

    Example:
        >>> from agentrt import NotYetKnown, chat, program
        >>> @program
        ... async def river() -> str:
        ...     try:
        ...         return f"{chat().user('Name a river.').generate()}!"
        ...     except NotYetKnown:
        ...         return "await it first"
        >>> river.run()
        'await it first'
    """

    default_hint = "await it first, or pass it as its own part of the prompt"


@dataclass(eq=False, repr=False, kw_only=True)
class ConstraintError(ProgramError):
    """A type, schema, regex or grammar cannot be enforced; raised where it is declared.

    That of a tool's schema, or of options that are known late, is the error of its generation.

    Example:
        >>> from agentrt import ConstraintError, json_schema
        >>> try:
        ...     json_schema({"type": "integer", "not": {"multipleOf": 7}})
        ... except ConstraintError as error:
        ...     print(error.keyword)
        not

    Attributes:
        pointer: JSON pointer to the offending part of the schema; "" for the whole.
        keyword: The unsupported keyword; "" if it is not one keyword.
    """

    exit_code = 4

    pointer: str = ""
    keyword: str = ""


@record
class PromptPart:
    """A part of a prompt and its tokens.

    Attributes:
        name: A name such as `filings#1`, the node it came from, or the beginning of its text.
        tokens: Tokens of the part, those that the template writes around it included.
    """

    name: str
    tokens: int


@dataclass(eq=False, repr=False, kw_only=True)
class ContextOverflow(ProgramError):
    """The prompt (with the smallest valid output) does not fit the model's window.

    Catch it to answer without the largest part, or avoid it with `on_overflow=trim`.

    Example:
        >>> from agentrt import ContextOverflow
        >>> def excess_tokens(error: ContextOverflow) -> int:
        ...     return error.needed_tokens - error.window_tokens
        >>> excess_tokens(ContextOverflow("too long", needed_tokens=9000, window_tokens=8192))
        808

    Attributes:
        needed_tokens: Tokens of the prompt and the smallest valid output.
        window_tokens: Context length of the model.
        parts: Parts of the prompt, the largest first.
    """

    needed_tokens: int = 0
    window_tokens: int = 0
    parts: tuple[PromptPart, ...] = ()


class LimitExceeded(ProgramError):
    """A limit set by the author was reached; catch it to go on with less.

    Example:
        >>> from agentrt import LimitExceeded, chat, program
        >>> @program
        ... async def river() -> str:
        ...     try:
        ...         return await chat().user("Name a river.").generate(deadline=0.01)
        ...     except LimitExceeded:
        ...         return "no time"
        >>> river.run()
        'no time'
    """

    exit_code = 5


@dataclass(eq=False, repr=False, kw_only=True)
class DeadlineExceeded(LimitExceeded):
    """The deadline of a program, node or `limits` block passed.

    Catch it to give a shorter answer; `progress` shows which nodes took the time.

    Example:
        >>> from agentrt import DeadlineExceeded, chat, program
        >>> @program
        ... async def river() -> list[str]:
        ...     try:
        ...         return [await chat().user("Name a river.").generate(deadline=0.01)]
        ...     except DeadlineExceeded as late:
        ...         return [part.name for part in late.progress.path]
        >>> river.run()
        ['str']

    Attributes:
        progress: The path that took the time, and the slack of what was in flight.
    """

    default_hint = "Raise the deadline, or use on_limit='close' to get the shortest valid answer"

    progress: RunProgress = field(default_factory=RunProgress)

    def __post_init__(self) -> None:
        if self.progress.path:
            self.message = f"{self.message}: {self.progress}"
            if not self.progress.could_close:
                self.hint = self.hint or _NOTHING_TO_CLOSE
        super().__post_init__()


class BudgetExceeded(LimitExceeded):
    """A budget of tokens, calls or money of a `limits` block is used up.

    Example:
        >>> from agentrt import BudgetExceeded, chat, limits, program
        >>> @program
        ... async def river() -> str:
        ...     try:
        ...         async with limits(tokens=2):
        ...             return await chat().user("Name a river.").generate()
        ...     except BudgetExceeded:
        ...         return "too long"
        >>> river.run()
        'too long'
    """


class RunTooLarge(LimitExceeded):
    """A run would pass its limit of depth, of nodes or of bodies that run at once.

    The message holds the call sites that led there. Such a program usually calls itself without
    end, or makes nodes in a loop without awaiting them.

    Example:
        >>> from agentrt import RunTooLarge, program
        >>> @program
        ... async def endless() -> int:
        ...     return await endless()
        >>> try:
        ...     endless.run()
        ... except RunTooLarge:
        ...     print("it called itself 200 times")
        it called itself 200 times
    """

    default_hint = "End the recursion or the loop, or raise the limit"


@dataclass(eq=False, repr=False, kw_only=True)
class Truncated(LimitExceeded):
    """`max_tokens` ended an output that was not complete; use the part that is there.

    Example:
        >>> from agentrt import Truncated, chat, program
        >>> @program
        ... async def rivers() -> list[str]:
        ...     try:
        ...         return await chat().user("Name two rivers.").each(str, max_tokens=9)
        ...     except Truncated as short:
        ...         return short.partial
        >>> rivers.run()
        ['Nile']

    Attributes:
        partial_text: Output until the limit.
        partial: The value as far as it is known: plain Python, as `partials()` gives it; for a
            streamed list, the closed items in their declared types. None while nothing is known.
    """

    exit_code = 4
    default_hint = "Raise max_tokens, or use on_limit='close'"

    partial_text: str = ""
    partial: Any = None


@record
class FailedAttempt:
    """One answer that failed its check.

    Attributes:
        text: The whole answer.
        reason: The failure in the checker's words.
    """

    text: str
    reason: str


@dataclass(eq=False, repr=False, kw_only=True)
class CheckFailed(ProgramError):
    """No attempt passed its check; `attempts` shows the answers and what was wrong with them.

    Example:
        >>> from agentrt import CheckFailed, chat, json_schema, program
        >>> TWO = {"type": "array", "contains": {"const": "Po"}, "minItems": 2}
        >>> WITH_PO = json_schema(TWO, check=True)
        >>> @program
        ... async def rivers() -> str:
        ...     try:
        ...         return await chat().user("Name a river twice.").generate(WITH_PO, retries=0)
        ...     except CheckFailed as failed:
        ...         return failed.attempts[0].text
        >>> rivers.run()
        '["Nile","Nile"]'

    Attributes:
        attempts: Failed attempts, in order.
    """

    exit_code = 4
    default_hint = "Say in the prompt what is wanted, raise retries, or ask for a simpler type"

    attempts: tuple[FailedAttempt, ...] = ()


class OutputUnreadable(CheckFailed):
    """An answer that its grammar allows is not read as a value of its type.

    Types are tried when they are declared, so this is rare. The model answers again first, unless
    the program has already been given a part of the answer.

    Example:
        >>> from agentrt import OutputUnreadable
        >>> OutputUnreadable("no date").hint
        'Give check=True, or use a simpler type'
    """

    default_hint = "Give check=True, or use a simpler type"


class Degenerate(ProgramError):
    """The model repeats itself without end; the generation is stopped.

    Example:
        >>> from agentrt import Degenerate, chat, program
        >>> @program
        ... async def river() -> str:
        ...     ask = chat().user("Name a river.")
        ...     try:
        ...         return await ask.generate()
        ...     except Degenerate:
        ...         return await ask.generate(repetition_penalty=1.2)
        >>> river.run()
        'Nile'
    """

    exit_code = 4
    default_hint = "Lower max_tokens, raise temperature or set repetition_penalty"


@dataclass(eq=False, repr=False, kw_only=True)
class NodeCancelled(ProgramError):
    """A cancelled node was awaited.

    Example:
        >>> from agentrt import NodeCancelled, chat, program
        >>> @program
        ... async def river() -> str:
        ...     node = chat().user("Name a river.").generate()
        ...     node.cancel("not needed")
        ...     try:
        ...         return await node
        ...     except NodeCancelled as cancelled:
        ...         return cancelled.reason
        >>> river.run()
        'not needed'

    Attributes:
        reason: Cause of the cancellation, in one phrase.
    """

    reason: str = ""
