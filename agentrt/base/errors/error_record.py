"""Errors as plain data, to cross a process."""

from __future__ import annotations

from agentrt.base.errors.engine_errors import InternalError
from agentrt.base.errors.root import AgentrtError
from agentrt.base.record import record


@record
class ErrorRecord:
    """An error as plain data, to cross a process.

    Attributes:
        type: Class name within the tree.
        message: One line: what happened.
        hint: One line: how to mend it.
        where: `file:line` in the user's program, or "".
        holds_content: Whether the message may quote prompts, outputs or arguments.
    """

    type: str
    message: str
    hint: str = ""
    where: str = ""
    holds_content: bool = True


def record_of(error: BaseException) -> ErrorRecord:
    """The error as plain data; errors from outside the tree keep their class name."""
    if isinstance(error, AgentrtError):
        name = type(error).__name__
        return ErrorRecord(name, error.message, error.hint, error.where, error.holds_content)
    name = type(error).__name__
    if name == "CancelledError":  # its text holds addresses of objects and would differ in each run
        return ErrorRecord(name, "cancelled")
    return ErrorRecord(name, str(error) or name)


def revive(data: ErrorRecord) -> AgentrtError:
    """The error in `data`; a class outside the tree becomes `InternalError`."""
    cls = _classes().get(data.type)
    if cls is None:
        return InternalError(f"{data.type}: {data.message}", hint=data.hint, where=data.where)
    return cls(data.message, hint=data.hint, where=data.where, holds_content=data.holds_content)


def _classes() -> dict[str, type[AgentrtError]]:
    found: dict[str, type[AgentrtError]] = {}
    todo: list[type[AgentrtError]] = [AgentrtError]
    while todo:
        cls = todo.pop()
        found[cls.__name__] = cls
        todo.extend(cls.__subclasses__())
    return found
