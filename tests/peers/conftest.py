"""One engine of another maker at a time, and the table of what ran on which."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agentrt import RemoteEngineConfig, UsageError, embedded
from agentrt.lab.arms.peer_files import peer_files
from tests.peers.outcome_table import OutcomeTable
from tests.peers.peer_engines import KEY, served

TABLE = pytest.StashKey[OutcomeTable]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = OutcomeTable()


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> OutcomeTable:
    """Outcomes of programs by engine, printed at the end."""
    return pytestconfig.stash[TABLE]


@pytest.fixture(scope="session")
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RemoteEngineConfig]:
    """The engine that `indirect` names; all of its tests run before the next one starts."""
    folder = tmp_path_factory.mktemp("peer")
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PEER_KEY", KEY)
        try:
            found = stack.enter_context(served(request.param, peer_files(embedded.path()), folder))
        except UsageError as error:
            pytest.skip(f"{error.message}: {error.hint}")
        yield found


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash[TABLE].lines():
        terminalreporter.write_line(line)
