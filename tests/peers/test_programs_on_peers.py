"""The programs and examples of this repository, on real engines of other makers."""

from typing import Any, get_type_hints

import pytest
from pydantic import ConfigDict, create_model

from agentrt import (
    AgentrtError,
    CheckFailed,
    DeadlineExceeded,
    Degenerate,
    Truncated,
    Unsupported,
)
from agentrt.app import open_runtime
from tests.peers.outcome_table import OK
from tests.peers.peer_engines import PEERS
from tests.remote.repository_programs import PROGRAMS, loaded

pytestmark = pytest.mark.peers

SAID = (Truncated, CheckFailed, Degenerate, DeadlineExceeded, Unsupported)
"""What a small model on a busy machine comes to, and what an engine is known to lack."""


@pytest.mark.parametrize("engine", PEERS, indirect=True)
@pytest.mark.parametrize("path", PROGRAMS)
def test_it_ends_with_its_type_or_says_why(portal, engine, path, table, request, monkeypatch):
    found, (_, arguments) = loaded(path, monkeypatch), PROGRAMS[path]
    name = request.node.callspec.params["engine"]

    async def main() -> Any:
        async with open_runtime(engine=engine) as runtime:
            try:
                return await runtime.run(found, *arguments)
            except AgentrtError as error:
                return error

    result = portal.call(main)
    if not isinstance(result, AgentrtError):
        table.note(path, name, OK)
        check_type(result, get_type_hints(found.fn)["return"])
        return
    table.note(path, name, f"{type(result).__name__}: {result.message}")
    assert isinstance(result, SAID), result
    assert result.hint
    assert "\n" not in result.message


def check_type(value: Any, declared: Any) -> None:
    """Check that a value is of a declared type, without any conversion."""
    settings = ConfigDict(arbitrary_types_allowed=True, strict=True)
    holder = create_model("Holder", value=(declared, ...), __config__=settings)
    holder(value=value)
