"""Every example and program runs on a script, and its recording is the same run again."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentrt import chat
from agentrt.protocol.backend import GenerateRequest
from agentrt.recording import RunRecording
from agentrt.testing import LoopClock, RecordedRuntime, Reply, ScriptedRuntime, call, in_order
from tests.syntax import ROOT

ORDER = {"name": "Mara", "email": "m@x.org", "quantity": 3, "item": "lamp", "city": "Oslo"}
SOLUTION = {"reasoning": "so", "answer": 85}
RETURN = call("total_return", symbol="AAPL", start="2005-01", end="2009-12")


def finance(request: GenerateRequest, prompt: str) -> Any:
    """A plan, then a report of the figure that its tool has given."""
    if "plan" in request.node_id:
        return RETURN
    result = re.search(r"\[result of total_return\] (.*)", prompt)
    assert result
    return {"figures": json.loads(result[1]), "answer": "AAPL gained."}


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "examples/01_hello.py:hello": (["It is 85."], ("What is 47 + 38?",)),
    "examples/02_types.py:types": ({"Order": ORDER, "urgent": "yes"}, ("Three lamps.",)),
    "examples/03_fork.py:fork": ({"*": SOLUTION}, ("What is 47 + 38?",)),
    "examples/04_tools.py:tools": ({"*": in_order("yes", "no")}, ()),
    "examples/05_stream.py:stream": ({"answer": "It is 42.", "*": [1, 2, 3]}, ("20 + 22?",)),
    "examples/06_limits.py:limited": (
        {"str": "Of course, the order is this:", "Order": ORDER | {"city": "Oslo " * 8}},
        ("Three lamps.",),
    ),
    "examples/07_many_runs.py:solve": ([SOLUTION], ("What is 47 + 38?",)),
    "examples/08_answers.py:answers": (
        {
            "choice": in_order("orders", Reply("yes", thinking="Before the weekend.")),
            "Parcel": in_order({"pieces": 1, "boxes": 3}, {"pieces": 3, "boxes": 1}),
        },
        ("Three lamps.",),
    ),
    "examples/09_tags.py:tags": (
        ['It is <sum>{"left": 3, "right": 4}</sum>.', "Ticket AB-123 for orders, 3, 4"],
        ("Add 3 to 4.",),
    ),
    "programs/advisor.py:advisor": (
        {"draft": "Risk is a word.", "guard": "yes", "decline": "I must not."},
        (chat("Be brief."), "What is risk?"),
    ),
    "programs/extract.py:extract": ([ORDER], ("Three lamps.",)),
    "programs/finance.py:finance": (finance, ("What did AAPL return?",)),
    "programs/react.py:react": (
        [
            call("search", query="Veldhaven"),
            [call("growth", old=10, new=15), call("search", query="Ostend")],
            {"text": "50 percent", "sources": ["Veldhaven"]},
        ],
        ("How much did Veldhaven grow?",),
    ),
    "programs/tree.py:tree": (
        {"thought": "add the tens", "mark": in_order(*(n % 10 for n in range(18))), "*": 85},
        ("What is 47 + 38?",),
    ),
    "programs/vote.py:vote": ({"s*": SOLUTION}, ("What is 47 + 38?",)),
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Loads a file as a user's own module."""
    monkeypatch.syspath_prepend(str(ROOT / "programs"))

    def loaded(file: str) -> ModuleType:
        name = f"scripted_{Path(file).stem}"
        spec = importlib.util.spec_from_file_location(name, ROOT / file)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


def plain(value: Any) -> str:
    return repr(value.messages() if hasattr(value, "messages") else value)


@pytest.mark.parametrize("case", CASES)
def test_a_program_runs_on_a_script_and_is_replayed(
    case: str, load: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    file, _, name = case.partition(":")
    program = getattr(load(file), name)
    script, args = CASES[case]
    path = tmp_path / "run.jsonl"
    engine = ScriptedRuntime(
        script, decode_tokens_per_s=100.0, observers=[RunRecording(path, LoopClock())]
    )
    before = engine.run(program, *args)
    after = RecordedRuntime(path).run(program, *args)
    assert plain(after.value) == plain(before.value)
    # An engine ends what is cancelled at its next step, of 10 ms here; a replay ends it at once.
    assert after.compound_s == pytest.approx(before.compound_s, abs=0.0101)
    assert after.critical_path == before.critical_path


def test_no_program_is_left_out() -> None:
    files = [*(ROOT / "examples").glob("[0-9]*.py"), *(ROOT / "programs").glob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if re.search(r"^@program", path.read_text("utf-8"), re.MULTILINE)
    }
    assert found == {case.partition(":")[0] for case in CASES}
