"""Warm-up: while engines start, what programs will likely need is compiled and encoded."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.segments import Close, Open, Text, ToolSchema
from agentrt.program import Chat, Program
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.program.static_scan import scan_program
from agentrt.protocol.backend import Backend

if TYPE_CHECKING:
    from agentrt.prompt import Codec

_log = logging.getLogger("agentrt")
_QUESTION = (Open("user"), Text("?"), Close())
"""Makes a prompt of any chat."""


Programs = Sequence[Program[..., Any]]


def start_warmup(
    programs: Programs, backends: Iterable[tuple[Backend, Codec | None]]
) -> threading.Thread | None:
    """Start the warm-up for some programs on a thread.

    Args:
        programs: Programs that will be run.
        backends: Backends with their codecs; those without a codec need no warm-up.

    Returns:
        The thread, which uses the codecs: no other thread may before it has ended. None without
        programs.
    """
    if not programs:
        return None
    local = [(backend, codec) for backend, codec in backends if codec is not None]
    loop = asyncio.get_running_loop()

    def prewarm(constraints: tuple[ConstraintSpec, ...]) -> None:
        for backend, _ in local:
            backend.prewarm(constraints)

    def warm_up() -> None:
        try:
            constraints = prepare(programs, [codec for _, codec in local])
        except Exception:  # if it matters, the program will report it
            _log.debug("the warm-up failed", exc_info=True)
            return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(prewarm, constraints)

    thread = threading.Thread(target=warm_up, name="agentrt warm-up", daemon=True)
    thread.start()
    return thread


def prepare(programs: Programs, codecs: Sequence[Codec]) -> tuple[ConstraintSpec, ...]:
    """Prepare the schemas of tools, the shapes of types, and the beginnings of prompts.

    Args:
        programs: Programs that will be run.
        codecs: Codecs that will encode their prompts.

    Returns:
        Constraints that engines may have to enforce.
    """
    constraints: list[ConstraintSpec] = []
    for program in programs:
        found = scan_program(program)
        constraints += [one for one in found.constraints if one not in constraints]
        for codec in codecs:
            for chat in found.chats:
                for tools in ((), *found.toolsets):
                    _begin(codec, chat, tools)
    return tuple(constraints)


def _begin(codec: Codec, chat: Chat, tools: tuple[ToolSchema, ...]) -> None:
    """Encode the beginning of a chat; a refusal of the template is reported when it is used."""
    with suppress(AgentrtError):
        codec.encode(tools or chat.tools, (*prompt_segments(chat), *_QUESTION), chat.history)
