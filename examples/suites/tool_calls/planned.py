"""The calls that a model plans for a question about closing prices; no tool is run.

agentrt eval examples/suites/tool_calls --limit 20
agentrt run examples/suites/tool_calls/planned.py --question "What did IBM gain in 2003?"
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "programs"), str(ROOT / "examples" / "embedded_model")]

from closes import Table, load  # noqa: E402
from finance import ANALYST, STOCKS, TOOLS  # noqa: E402
from held_out.questions import written  # pyright: ignore # noqa: E402

from agentrt import program  # noqa: E402


@program
async def planned(question: str) -> list[dict[str, Any]]:
    """The calls for `question`, companies by their symbols."""
    table = load(STOCKS)
    ask = ANALYST.user("Symbols: ", table.shown, "\nQuestion: ", question)
    plan = ask.calls(*(one.bind(table=table) for one in TOOLS), max_tokens=400, name="plan")
    return [
        {"name": call.name, "arguments": _by_symbol(json.loads(call.call.arguments_json), table)}
        async for call in plan
    ]


def cases() -> list[dict[str, Any]]:
    """The blind questions of the embedded model whose calls were written down with them."""
    return [
        {
            "inputs": {"question": one.text},
            "expected": [{"name": name, "arguments": given} for name, given in one.calls],
        }
        for one in written("blind")
    ]


def _by_symbol(arguments: dict[str, Any], table: Table) -> dict[str, Any]:
    """Arguments with a symbol where a model may also write the name of the company."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in ("symbol", "first", "second"):
            found[name] = table.symbol(value)
        elif name == "symbols":
            found[name] = [table.symbol(one) for one in value]
        elif value is not None:
            found[name] = value
    return found
