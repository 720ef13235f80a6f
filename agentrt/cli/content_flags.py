"""The flag for what is kept of prompts, answers and tool calls, of all commands that have it."""

from __future__ import annotations

from typing import Annotated

import typer

from agentrt.base.content_config import CONTENT_VARIABLE

ContentPlace = Annotated[
    str,
    typer.Option(
        "--content",
        metavar="transcript|spans|off",
        envvar=CONTENT_VARIABLE,
        help="What is kept of prompts and answers: a file beside the trace, also spans, nothing.",
    ),
]
ServedContent = Annotated[
    str,
    typer.Option(
        "--content",
        metavar="transcript|spans|off",
        envvar=CONTENT_VARIABLE,
        help="What is kept of prompts and answers: a file a request, also spans, or nothing.",
    ),
]
