"""Making ready, while engines start, what programs will likely ask for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.segments import Close, Open, Text, ToolSchema
from agentrt.program import Chat, Program
from agentrt.program.static_scan import foreseen
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend

_log = logging.getLogger("agentrt")
_ASKED = (Open("user"), Text("?"), Close())
"""Makes a prompt of any chat."""


Programs = Sequence[Program[..., Any]]


def make_ready(
    programs: Programs, backends: Iterable[tuple[Backend, Codec | None]]
) -> threading.Thread | None:
    """Begin, on a thread, with what these programs name; engines are told what to compile.

    Args:
        programs: That will be run.
        backends: With their codecs; those that take messages compile nothing of ours.

    Returns:
        The thread, which uses the codecs: nobody else may before it has ended. None where no
        program is named.
    """
    if not programs:
        return None
    local = [(backend, codec) for backend, codec in backends if codec is not None]
    loop = asyncio.get_running_loop()

    def tell(constraints: tuple[ConstraintSpec, ...]) -> None:
        for backend, _ in local:
            backend.prewarm(constraints)

    def prepare() -> None:
        try:
            constraints = prepared(programs, [codec for _, codec in local])
        except Exception:  # it shows, if it matters, where the program does the same
            _log.debug("not all could be made ready", exc_info=True)
            return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, constraints)

    thread = threading.Thread(target=prepare, name="agentrt foresight", daemon=True)
    thread.start()
    return thread


def prepared(programs: Programs, codecs: Sequence[Codec]) -> tuple[ConstraintSpec, ...]:
    """Schemas of tools, shapes of types, and the beginnings of prompts.

    Args:
        programs: That will be run.
        codecs: That prompts will be encoded by.

    Returns:
        What engines may be asked to enforce.
    """
    constraints: list[ConstraintSpec] = []
    for program in programs:
        found = foreseen(program)
        constraints += [one for one in found.constraints if one not in constraints]
        for codec in codecs:
            for chat in found.chats:
                for tools in ((), *found.toolsets):
                    _begin(codec, chat, tools)
    return tuple(constraints)


def _begin(codec: Codec, chat: Chat, tools: tuple[ToolSchema, ...]) -> None:
    """Work out how a chat begins; what its template refuses shows when it is used."""
    with suppress(AgentrtError):
        codec.encode(tools or chat.tools, (*chat.segments(), *_ASKED), chat.history)
