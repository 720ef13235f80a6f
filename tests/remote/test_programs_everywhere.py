"""The programs and examples of this repository, over servers of every kind."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from agentrt import (
    AgentrtError,
    CheckFailed,
    Degenerate,
    Program,
    Truncated,
    Unsupported,
    chat,
)
from agentrt.app import open_runtime
from tests.conftest import ROOT
from tests.remote.fronts import FRONTS, KEY, front_engine

pytestmark = pytest.mark.slow

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
FACES = ("tiny", "tiny-openai", "tiny-azure", "tiny-tools", "tiny-plain")
SAID = (Truncated, CheckFailed, Degenerate, Unsupported)
"""What noise comes to, and what a server is known to lack: each in one line with a hint."""


@pytest.mark.parametrize("face", [*FACES, *FRONTS])
@pytest.mark.parametrize("path", PROGRAMS)
def test_it_ends_with_its_type_or_says_why(portal, server_url, path, face, monkeypatch):
    name, arguments = PROGRAMS[path]
    file = ROOT / path
    monkeypatch.syspath_prepend(str(file.parent))
    found: Program[..., Any] = getattr(importlib.import_module(file.stem), name)
    monkeypatch.setenv("FRONT_KEY", KEY)
    opened = (
        open_runtime(engine=front_engine(server_url, face))
        if face in FRONTS
        else open_runtime(engine=server_url, remote_model=face)
    )

    async def main() -> Any:
        async with opened as runtime:
            try:
                return await runtime.run(found, *arguments)
            except AgentrtError as error:
                return error

    result = portal.call(main)
    if isinstance(result, AgentrtError):
        assert isinstance(result, SAID), result
        assert result.hint
        assert "\n" not in result.message
