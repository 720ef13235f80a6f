"""Answers to a program's questions, from the terminal."""

from __future__ import annotations

import sys

import anyio

from agentrt.base.errors import UsageError
from agentrt.runtime import PersonQuestion


async def ask_on_terminal(question: PersonQuestion) -> str:
    """Read an answer at the terminal; the run continues meanwhile.

    Raises:
        UsageError: Standard input is not a terminal, or is at its end.
    """
    sys.stderr.write(f"\n{question.text} ")
    sys.stderr.flush()
    line: str = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    if not line:
        raise UsageError(
            f"nobody answered {question.text!r}",
            hint="answer on standard input, one line a question",
        )
    return line.rstrip("\n")
