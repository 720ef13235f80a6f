"""Text to whoever started the run."""

from __future__ import annotations

from typing import Any

from agentrt.program.chat import Gen
from agentrt.program.scope import current_scope


async def emit(gen: Gen[Any]) -> None:
    """Hand the text of a generation to the caller of the run as it comes.

    Also what was written before this call. Returns at the end of the text.
    """
    run = current_scope("emit").run
    async for text in gen.stream():
        run.emit(text)
