"""Errors of tools, of engines, and of agentrt itself."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.errors.root import AgentrtError


class ToolError(AgentrtError):
    """A tool could not do its work.

    Example:
        >>> from agentrt import ToolError, ToolFailed
        >>> issubclass(ToolFailed, ToolError)
        True
    """


@dataclass(eq=False, repr=False, kw_only=True)
class ToolFailed(ToolError):
    """A tool raised, timed out or refused its arguments.

    A model that called the tool sees the failure as text; a program that awaits the call gets this.

    Example:
        >>> from agentrt import ToolFailed, program, tool
        >>> @tool(effects="read", retries=1)
        ... def price(symbol: str) -> float:
        ...     raise OSError("no network")
        >>> @program
        ... async def worth() -> str:
        ...     try:
        ...         return str(await price("IBM"))
        ...     except ToolFailed as failed:
        ...         return f"{failed.tool} failed {failed.attempts} times: {failed.__cause__}"
        >>> worth.run()
        'price failed 2 times: no network'

    Attributes:
        tool: Name of the tool.
        attempts: Number of attempts made.
    """

    tool: str = ""
    attempts: int = 1


@dataclass(eq=False, repr=False, kw_only=True)
class OutcomeUnknown(ToolError):
    """The wait for a `write` tool ended before the tool did; it goes on, and is never repeated.

    Raised at the tool's timeout, at a deadline and at a cancellation. Look in the world for what
    the tool has done before doing it again.

    Example:
        >>> import anyio
        >>> from agentrt import OutcomeUnknown, program, tool
        >>> @tool(effects="write", timeout=0.01)
        ... async def pay(cents: int) -> str:
        ...     await anyio.sleep(0.1)
        ...     return "paid"
        >>> @program
        ... async def settle() -> str:
        ...     try:
        ...         return await pay(500)
        ...     except OutcomeUnknown as unknown:
        ...         return f"{unknown.tool} may still be done"
        >>> settle.run()
        'pay may still be done'

    Attributes:
        tool: Name of the tool.
    """

    default_hint = "Look whether it was done before doing it again, or give the tool more time"

    tool: str = ""


class BackendError(AgentrtError):
    """The engine could not serve a request; `retryable` says whether a retry may help.

    Example:
        >>> from agentrt import BackendError, EngineDied, ModelInvalid
        >>> issubclass(EngineDied, BackendError), EngineDied.retryable, ModelInvalid.retryable
        (True, True, False)
    """

    exit_code = 3


class EngineUnavailable(BackendError):
    """No engine answers at the address, or it cannot start; try again or take another engine.

    Example:
        >>> from agentrt import EngineUnavailable
        >>> EngineUnavailable("nothing answers at http://localhost:8000").retryable
        True
    """

    retryable = True


class NotInstalled(BackendError):
    """The packages of the embedded engine are not installed; an install without them is light.

    Example:
        >>> from agentrt import NotInstalled
        >>> print(NotInstalled("the embedded engine needs torch, not installed here"))
        the embedded engine needs torch, not installed here. pip install 'agentrt[engine]'
    """

    default_hint = "pip install 'agentrt[engine]'"


class EngineDied(BackendError):
    """The engine's process ended while it served requests; a new one is being started.

    Example:
        >>> from agentrt import EngineDied
        >>> print(EngineDied("the engine died"))
        the engine died. Run it again: the engine restarts by itself
    """

    retryable = True
    default_hint = "Run it again: the engine restarts by itself"


class ModelInvalid(BackendError):
    """A model directory cannot be loaded; the message names the file that is missing or wrong.

    Example:
        >>> from agentrt import ModelInvalid
        >>> ModelInvalid("models/llama has no config.json").exit_code
        3
    """


@dataclass(eq=False, repr=False, kw_only=True)
class OutputDiverged(BackendError):
    """An engine was lost, and wrote something else than it had when it was asked again.

    Raised only if the program was given some of the first output: an item, or text that it read
    along. A value that is awaited as a whole is simply the second one.

    Example:
        >>> from agentrt import OutputDiverged
        >>> error = OutputDiverged("item 2 is another one", item=2, before="7", after="8")
        >>> error.item, error.retryable
        (2, False)

    Attributes:
        item: Index of the first item that was handed out and is another one now; None if the
            output is no list, or the program read its text.
        offset: Characters of the text that are the same.
        before: The item as it was handed out, or the text from `offset` on.
        after: The text that the engine wrote instead, from `offset` on.
    """

    default_hint = "Run it again, or await the value as a whole instead of reading it along"

    item: int | None = None
    offset: int = 0
    before: str = ""
    after: str = ""


@dataclass(eq=False, repr=False, kw_only=True)
class OutOfPages(BackendError):
    """A request can never fit in the KV cache; shorten the prompt or give the engine more memory.

    Example:
        >>> from agentrt import OutOfPages
        >>> error = OutOfPages("too large", wanted_pages=70, total_pages=64)
        >>> error.wanted_pages - error.total_pages
        6

    Attributes:
        wanted_pages: KV pages that the request needs at its largest.
        total_pages: KV pages of the pool.
    """

    wanted_pages: int = 0
    total_pages: int = 0


class RequestRejected(BackendError):
    """An engine refused one request, or answered it in a form that was not asked for.

    Example:
        >>> from agentrt import RequestRejected
        >>> RequestRejected("the server answered 400").retryable
        False
    """


class AnswerRefused(RequestRejected):
    """A provider's filter or its model refused to answer; another engine may.

    Example:
        >>> from agentrt import AnswerRefused, RequestRejected
        >>> issubclass(AnswerRefused, RequestRejected)
        True
    """

    default_hint = "Reword the prompt, or give another engine for refusals"


class Unsupported(BackendError):
    """This engine cannot do what was asked; the hint names an option to leave out.

    Example:
        >>> from typing import Literal
        >>> from agentrt import Unsupported, chat, program
        >>> @program
        ... async def sure() -> str:
        ...     ask = chat().user("Is Lake Como in Italy?")
        ...     try:
        ...         return await ask.generate(Literal["yes", "no"], scored=True)
        ...     except Unsupported:
        ...         return await ask.generate(Literal["yes", "no"])
        >>> sure.run()
        'yes'
    """


class InternalError(AgentrtError):
    """A bug of agentrt; please report it with the trace file.

    Example:
        >>> from agentrt import InternalError
        >>> InternalError("the loop broke").hint
        'This is a bug of agentrt: please report it with the trace file'
    """

    default_hint = "This is a bug of agentrt: please report it with the trace file"
