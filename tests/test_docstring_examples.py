"""Examples in docstrings are run, so that they cannot rot.

A program that an example runs is served by a scripted engine: it gives the answer that stands in
`ANSWERS` under the last line of the prompt.
"""

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.program import Program
from agentrt.program.default_runner import default_runner, set_default_runner
from agentrt.protocol.backend import GenerateRequest
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing import LoopClock, Reply, ScriptedBackend, run_virtual

ROOT = Path(__file__).resolve().parent.parent
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "agentrt").rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]
PRICE_CALLS = (
    '[{"name":"price","arguments":{"symbol":"IBM"}},{"name":"price","arguments":{"symbol":"AAPL"}}]'
)
ANSWERS: dict[str, str | Reply] = {
    "Name a river.": "Nile",
    "Name a lake.": "Como",
    "Name a sea.": "Aral",
    "Name one more.": "Rhine",
    "Name two rivers.": '["Nile","Rhine"]',
    "Name a river twice.": '["Nile","Nile"]',
    "How many legs has a spider?": "8",
    "Which month has 28 days?": "February",
    "Is Lake Como in Italy?": "yes",
    "Name an even number.": "4",
    "Name a person.": "Name: Ada, age: 36",
    "How many legs have two spiders?": "They have <sum>16</sum> legs.",
    "A date.": "2024-02-29",
    "A sum.": "1+2",
    "What are IBM and AAPL worth?": PRICE_CALLS,
    "What is IBM worth?": '[{"name":"price","arguments":{"symbol":"IBM"}}]',
    "Which is worth more?": "AAPL",
    "[result of price] 98.5": '"98.5 dollars"',
    "Name a river in English": "Nile",
}


def answer(request: GenerateRequest, prompt: str) -> str | Reply:
    """The answer to the last line of a prompt, without its role."""
    question = prompt.rstrip().rpartition("\n")[2].partition("> ")[2]
    return ANSWERS[question]


def run_scripted(
    program: Program[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], _engine: object
) -> Any:
    async def main() -> Any:
        clock = LoopClock()
        backend = ScriptedBackend(answer, clock=clock, decode_tokens_per_s=100.0)
        options = RunOptions(on_emit=print, on_ask=lambda question: "yes")
        async with Runtime({"default": (backend, None)}, clock=clock) as runtime:
            return await runtime.with_options(options).run(program, *args, **kwargs)

    return run_virtual(main)


@pytest.fixture
def _scripted() -> Iterator[None]:
    """Makes `program.run(...)` run on the scripted engine."""
    before = default_runner()
    set_default_runner(run_scripted)
    yield
    set_default_runner(before)


@pytest.mark.usefixtures("_scripted")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_do_what_they_show(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".__init__"))
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted
    assert not outcome.failed


def test_every_public_name_has_an_example() -> None:
    """`open_runtime` starts a real engine, so its example is only shown."""
    lack = [name for name in agentrt.__all__ if not _has_example(name)]
    assert lack == ["OnOverflow", "RunEvent", "mcp_tools", "open_runtime"], (
        "an alias has no docstring of its own"
    )


def _has_example(name: str) -> bool:
    return ">>> " in (getattr(agentrt, name).__doc__ or "")
