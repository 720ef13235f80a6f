"""The programs that completions are runs of: one generation, delivered while it lasts.

Each kind of completion is a program of its own, whose lengths are learned apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentrt.program import Gen, program
from agentrt.program.generation import submit
from agentrt.serve.request_builder import CompletionRequest

Deliver = Callable[[Gen[str]], Awaitable[None]]
"""Sends a generation to its client: as it comes, or once it is whole."""


@program
async def chat_completion(request: CompletionRequest, deliver: Deliver) -> None:
    """Generate the answer to a chat.

    Args:
        request: Prompt, output and options.
        deliver: Reads the generation until its end.
    """
    gen: Gen[Any] = submit(Gen, request.chat, request.output, request.options, site=_SITE)
    await deliver(gen)


@program
async def text_completion(request: CompletionRequest, deliver: Deliver) -> None:
    """Generate what follows a text.

    Args:
        request: Prompt, output and options.
        deliver: Reads the generation until its end.
    """
    gen: Gen[Any] = submit(Gen, request.chat, request.output, request.options, site=_TEXT_SITE)
    await deliver(gen)


_SITE, _TEXT_SITE = chat_completion.site, text_completion.site
