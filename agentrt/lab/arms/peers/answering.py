"""The answering end of a peer's process: lines of JSON, as `arm_process.py` describes them.

Runs in the peers' environment, beside the script that imports it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

Json = dict[str, Any]


def answer_lines(arm: object) -> None:
    """Answer each line of standard input until it ends.

    Args:
        arm: The arm; questions name its methods, plain or async.
    """
    asyncio.run(_answer_lines(arm))


async def _answer_lines(arm: object) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            question = json.loads(line)
            found = getattr(arm, question.pop("do"))(**question)
            answer = await found if inspect.isawaitable(found) else found
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
