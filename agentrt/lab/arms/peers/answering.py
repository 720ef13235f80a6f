"""How a peer is asked: questions and answers are lines of JSON, as of `engine_arm`.

Runs in the peers' environment, beside the script that imports it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def answer_lines(answer: Callable[[Json], Json]) -> None:
    """Answer each line of standard input until it ends; what goes wrong is an answer, too."""
    for line in sys.stdin:
        try:
            told = answer(json.loads(line))
        except Exception as error:
            told = failed(error)
        tell(told)


def failed(error: Exception) -> Json:
    """What went wrong, as an answer."""
    return {"error": f"{type(error).__name__}: {error}"}


def tell(told: Json) -> None:
    """One line of standard output."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
