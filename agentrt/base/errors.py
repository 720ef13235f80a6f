"""The error tree: one class for each kind of fault, by the party at fault, with a hint.

    AgentrtError
    ├── ProgramError            the author of the program can mend it
    │   ├── UsageError          a wrong flag, argument, file or setting
    │   ├── NoRun               a node was made outside a run
    │   ├── NotYetKnown         a pending node was used as if it were its value
    │   ├── ConstraintError     a type, schema, regex or grammar cannot be enforced
    │   ├── ContextOverflow     the prompt does not fit the model's window
    │   ├── LimitExceeded       a limit set by the author was reached
    │   │   ├── DeadlineExceeded
    │   │   ├── BudgetExceeded
    │   │   └── Truncated       max_tokens ended an output that was not complete
    │   ├── CheckFailed         no attempt gave a value that passes its check
    │   ├── Degenerate          the model repeats itself
    │   └── NodeCancelled       awaited a node that was cancelled
    ├── ToolError
    │   └── ToolFailed          a tool raised, timed out or refused its arguments
    ├── BackendError
    │   ├── EngineUnavailable   no engine answers, or it cannot start
    │   ├── EngineDied          the engine's process ended while it served requests
    │   ├── ModelInvalid        a model directory cannot be loaded
    │   ├── OutOfPages          a request can never fit the KV memory
    │   ├── RequestRejected     an engine refused one request
    │   └── Unsupported         this engine cannot do what was asked
    └── InternalError           our own bug: please report it

An error crosses a process as an `ErrorRecord` and comes back as the same class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentrt.base.run_progress import NodeProgress as NodeProgress
from agentrt.base.run_progress import RunProgress as RunProgress


class AgentrtError(Exception):
    """Any error of agentrt.

    Attributes:
        message: One line: what happened.
        hint: One line: how to mend it.
        where: `file:line` in the user's program, when known.
        retryable: Whether the same call may succeed later.
        exit_code: Exit code of `agentrt run`.
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.where = where

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class ProgramError(AgentrtError):
    """A fault that the author of the program can mend."""


class UsageError(ProgramError):
    """A wrong flag, argument, file or setting."""

    exit_code = 2


class NoRun(ProgramError, RuntimeError):
    """A node was made outside a run."""

    default_hint = "Start a run: `program.run(...)`, or `await runtime.run(program, ...)`"


class NotYetKnown(ProgramError, TypeError):
    """A pending node was used as if it were its value."""

    default_hint = "await it first, or pass it as its own part of the prompt"


class ConstraintError(ProgramError):
    """A type, schema, regex or grammar cannot be enforced.

    Attributes:
        pointer: JSON pointer to the offending part of the schema; "" for the whole.
        keyword: The unsupported keyword; "" if it is not one keyword.
    """

    exit_code = 4

    def __init__(
        self, message: str, *, pointer: str = "", keyword: str = "", hint: str = "", where: str = ""
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.pointer = pointer
        self.keyword = keyword


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of a prompt and its tokens.

    Attributes:
        name: A name such as `filings#1`, the node it came from, or the beginning of its text.
        tokens: Tokens of the part, those that the template writes around it included.
    """

    name: str
    tokens: int


class ContextOverflow(ProgramError):
    """The prompt (with the smallest valid output) does not fit the model's window.

    Attributes:
        needed_tokens: Tokens of the prompt and the smallest valid output.
        window_tokens: Context length of the model.
        parts: Parts of the prompt, the largest first.
    """

    def __init__(
        self,
        message: str,
        *,
        needed_tokens: int = 0,
        window_tokens: int = 0,
        parts: tuple[PromptPart, ...] = (),
        hint: str = "",
        where: str = "",
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.needed_tokens = needed_tokens
        self.window_tokens = window_tokens
        self.parts = parts


class LimitExceeded(ProgramError):
    """A limit set by the author was reached."""

    exit_code = 5


class DeadlineExceeded(LimitExceeded):
    """The deadline of a program, node or `limits` block passed.

    Attributes:
        progress: The path that took the time, and the slack of what was in flight.
    """

    default_hint = "Raise the deadline, or use on_limit='close' to get the shortest valid answer"

    def __init__(
        self, message: str, *, progress: RunProgress | None = None, hint: str = "", where: str = ""
    ) -> None:
        self.progress = progress or RunProgress()
        text = f"{message}: {self.progress}" if self.progress.path else message
        super().__init__(text, hint=hint, where=where)


class BudgetExceeded(LimitExceeded):
    """A token or call budget of a `limits` block is used up."""


class Truncated(LimitExceeded):
    """`max_tokens` ended an output that was not complete.

    Attributes:
        partial_text: Output until the limit.
        partial: The value as far as it is known: plain Python, as `partials()` gives it; for a
            streamed list, the closed items in their declared types. None while nothing is known.
    """

    exit_code = 4
    default_hint = "Raise max_tokens, or use on_limit='close'"

    def __init__(
        self,
        message: str,
        *,
        partial_text: str = "",
        partial: Any = None,
        hint: str = "",
        where: str = "",
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.partial_text = partial_text
        self.partial = partial


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One answer that failed its check.

    Attributes:
        text: The whole answer.
        reason: The failure in the checker's words.
    """

    text: str
    reason: str


class CheckFailed(ProgramError):
    """No attempt passed its check.

    Attributes:
        attempts: Failed attempts, in order.
    """

    exit_code = 4
    default_hint = "Say in the prompt what is wanted, raise retries, or ask for a simpler type"

    def __init__(
        self,
        message: str,
        *,
        attempts: tuple[FailedAttempt, ...] = (),
        hint: str = "",
        where: str = "",
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.attempts = attempts


class Degenerate(ProgramError):
    """The model repeats itself without end."""

    exit_code = 4
    default_hint = "Lower max_tokens, raise temperature or set repetition_penalty"


class NodeCancelled(ProgramError):
    """A cancelled node was awaited.

    Attributes:
        reason: Cause of the cancellation, in one phrase.
    """

    def __init__(self, message: str, *, reason: str = "", hint: str = "", where: str = "") -> None:
        super().__init__(message, hint=hint, where=where)
        self.reason = reason


class ToolError(AgentrtError):
    """A tool could not do its work."""


class ToolFailed(ToolError):
    """A tool raised, timed out or refused its arguments.

    Attributes:
        tool: Name of the tool.
        attempts: Number of attempts made.
    """

    def __init__(
        self, message: str, *, tool: str = "", attempts: int = 1, hint: str = "", where: str = ""
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.tool = tool
        self.attempts = attempts


class BackendError(AgentrtError):
    """The engine could not serve a request."""

    exit_code = 3


class EngineUnavailable(BackendError):
    """No engine answers at the address, or it cannot start."""

    retryable = True


class EngineDied(BackendError):
    """The engine's process ended while it served requests; a new one is being started."""

    retryable = True
    default_hint = "Run it again: the engine restarts by itself"


class ModelInvalid(BackendError):
    """A model directory cannot be loaded."""


class OutOfPages(BackendError):
    """A request can never fit in the KV cache.

    Attributes:
        wanted_pages: KV pages that the request needs at its largest.
        total_pages: KV pages of the pool.
    """

    def __init__(
        self,
        message: str,
        *,
        wanted_pages: int = 0,
        total_pages: int = 0,
        hint: str = "",
        where: str = "",
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.wanted_pages = wanted_pages
        self.total_pages = total_pages


class RequestRejected(BackendError):
    """An engine refused one request."""


class Unsupported(BackendError):
    """This engine cannot do what was asked."""


class InternalError(AgentrtError):
    """Our own bug."""

    default_hint = "This is a bug of agentrt: please report it with the trace file"


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as plain data, to cross a process.

    Attributes:
        type: Class name within the tree.
        message: One line: what happened.
        hint: One line: how to mend it.
        where: `file:line` in the user's program, or "".
    """

    type: str
    message: str
    hint: str = ""
    where: str = ""


def record_of(error: BaseException) -> ErrorRecord:
    """The error as plain data; errors from outside the tree keep their class name."""
    if isinstance(error, AgentrtError):
        return ErrorRecord(type(error).__name__, error.message, error.hint, error.where)
    name = type(error).__name__
    if name == "CancelledError":  # its text holds addresses of objects and would differ in each run
        return ErrorRecord(name, "cancelled")
    return ErrorRecord(name, str(error) or name)


def revive(data: ErrorRecord) -> AgentrtError:
    """The error in `data`; a class outside the tree becomes `InternalError`."""
    cls = _classes().get(data.type)
    if cls is None:
        return InternalError(f"{data.type}: {data.message}", hint=data.hint, where=data.where)
    return cls(data.message, hint=data.hint, where=data.where)


def _classes() -> dict[str, type[AgentrtError]]:
    found: dict[str, type[AgentrtError]] = {}
    todo: list[type[AgentrtError]] = [AgentrtError]
    while todo:
        cls = todo.pop()
        found[cls.__name__] = cls
        todo.extend(cls.__subclasses__())
    return found
