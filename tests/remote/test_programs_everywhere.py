"""The programs and examples of this repository, over servers of every kind."""

from typing import Any

import pytest

from agentrt import AgentrtError, CheckFailed, Degenerate, Truncated, Unsupported
from agentrt.app import open_runtime
from tests.remote.fronts import FRONTS, KEY, front_engine
from tests.remote.repository_programs import PROGRAMS, loaded

pytestmark = pytest.mark.slow

FACES = ("tiny", "tiny-openai", "tiny-azure", "tiny-tools", "tiny-plain")
SAID = (Truncated, CheckFailed, Degenerate, Unsupported)
"""What noise comes to, and what a server is known to lack: each in one line with a hint."""


@pytest.mark.parametrize("face", [*FACES, *FRONTS])
@pytest.mark.parametrize("path", PROGRAMS)
def test_it_ends_with_its_type_or_says_why(portal, server_url, path, face, monkeypatch):
    found, (_, arguments) = loaded(path, monkeypatch), PROGRAMS[path]
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
