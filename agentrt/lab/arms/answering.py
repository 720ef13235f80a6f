"""The answering end of an arm's process: lines of JSON, as `arm_process` describes them."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

from agentrt.base.errors import AgentrtError


async def answer_lines(arm: object) -> None:
    """Answer each line of standard input until it ends.

    Args:
        arm: The arm; questions name its methods, plain or async.
    """
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer = await _answer(arm, line)
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


async def _answer(arm: object, line: str) -> Any:
    try:
        question = json.loads(line)
        found = getattr(arm, question.pop("do"))(**question)
        return await found if inspect.isawaitable(found) else found
    except AgentrtError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
