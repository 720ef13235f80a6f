"""The blind questions about closing prices, as a suite.

agentrt eval examples/suites/finance --limit 20
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "programs"), str(ROOT / "examples" / "embedded_model")]

from closes import load  # noqa: E402
from finance import STOCKS, finance  # noqa: E402
from held_out.questions import (  # pyright: ignore # noqa: E402
    Question,
    blind,
)
from judging import Wanted, answers, wanted  # pyright: ignore # noqa: E402

from agentrt import program  # noqa: E402

patient = program(deadline=60.0)(finance.fn)
"""The program, whose own deadline would count a busy machine as a wrong answer."""


def cases() -> list[dict[str, Any]]:
    """A case for each question; what is expected follows from its text."""
    return [{"inputs": {"question": one.text}, "expected": one.text} for one in blind()]


def right(said: dict[str, Any], text: str) -> bool:
    """Whether the wanted figures are told and no others, or that there are none."""
    question, expected = _expected()[text]
    return answers(said, expected, question.about) if expected else "figures" not in said


@cache
def _expected() -> dict[str, tuple[Question, list[Wanted]]]:
    table = load(STOCKS)
    return {one.text: (one, wanted(one, table)) for one in blind()}
