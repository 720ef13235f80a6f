"""Text for the caller of a run, as it is generated."""

from __future__ import annotations

from typing import Any

from agentrt.program.chat import Gen
from agentrt.program.scope import current_scope


async def emit(gen: Gen[Any]) -> None:
    """Hand the text of a generation to the caller of the run as it comes.

    Use it for output that a person reads while it is written: `agentrt run` prints it, a server
    streams it, and `RunOptions(on_emit=...)` takes it elsewhere. Text that was written before the
    call comes first. Returns at the end of the text.

    Example:
        >>> from agentrt import chat, emit, program
        >>> @program
        ... async def tell() -> None:
        ...     await emit(chat().user("Name a river.").generate())
        >>> tell.run()
        N
        i
        l
        e

    Args:
        gen: The generation.

    Raises:
        NoRun: No run is active.
        Exception: The error of the generation.
    """
    run = current_scope("emit").run
    async for text in gen.stream():
        run.emit(text)
