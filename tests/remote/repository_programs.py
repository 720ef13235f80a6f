"""The programs and examples of this repository that run on any engine, with what they are asked."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from agentrt import Program, chat
from tests.conftest import ROOT

QUESTION = "What is 47 + 38?"
PROGRAMS: dict[str, tuple[str, Sequence[Any]]] = {
    "programs/advisor.py": ("advisor", (chat().user("Hi."), QUESTION)),
    "programs/extract.py": ("extract", ("Mara Lindt, Oslo: 3 desk lamps.",)),
    "programs/finance.py": ("finance", ("Which returned more from 2005 to 2009, AAPL or IBM?",)),
    "programs/react.py": ("react", ("How much did Veldhaven grow from 1990 to 2020?",)),
    "programs/tree.py": ("tree", (QUESTION,)),
    "programs/vote.py": ("vote", (QUESTION,)),
    "examples/01_hello.py": ("hello", (QUESTION,)),
    "examples/02_types.py": ("types", ("Mara Lindt, Oslo: 3 desk lamps.",)),
    "examples/03_fork.py": ("fork", (QUESTION,)),
    "examples/04_tools.py": ("tools", ()),
    "examples/05_stream.py": ("stream", (QUESTION,)),
    "examples/06_limits.py": ("limited", ("Mara Lindt, Oslo: 3 desk lamps.",)),
    "examples/08_answers.py": ("answers", ("Hi, Mara Lindt here.",)),
    "examples/09_tags.py": ("tags", ("Please add 3 lamps.",)),
}


def loaded(path: str, patched: pytest.MonkeyPatch) -> Program[..., Any]:
    """The program of a file, whose neighbours it imports by their names."""
    file = ROOT / path
    patched.syspath_prepend(str(file.parent))
    found: Program[..., Any] = getattr(importlib.import_module(file.stem), PROGRAMS[path][0])
    return found
