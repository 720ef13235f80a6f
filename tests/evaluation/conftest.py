"""The command of an evaluation, and our own server as an engine with a price."""

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import anyio.from_thread
import pytest

from agentrt.app import open_runtime
from agentrt.cli.main import answer
from agentrt.serve import ServeConfig, serving
from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable

Command = Callable[..., tuple[int, str, str]]
OWN_SUITE = """
from typing import Literal
from agentrt import chat, program

@program
async def pick(text: str, fail: bool = False) -> list[str]:
    if fail:
        raise ValueError("as asked")
    said = await chat("Pick.").user(text).generate(Literal["yes"], max_tokens=8)
    return [said, text]
"""
PRICED = """
[engines.own]
kind = "agentrt"
address = "{url}"
[engines.own.prices]
input = 2
output = 10
currency = "EUR"
"""


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines_in_threads: None) -> Command:
    """`agentrt eval` in a folder of its own: code, standard output and standard error."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = answer(["eval", *argv])
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture(scope="session")
def served_url(portal: anyio.from_thread.BlockingPortal) -> Iterator[str]:
    """The address of our own server with the embedded model."""
    config = ServeConfig("embedded", port=0, grace_s=1)
    opening = open_runtime(place="thread")
    with portal.wrap_async_context_manager(serving(config, opening)) as url:
        yield url


@pytest.fixture
def own_engine(evaluate: Command, served_url: str) -> str:
    """The name of that server in `agentrt.toml`, where it has a price."""
    Path("agentrt.toml").write_text(PRICED.format(url=served_url))
    return "own"


@pytest.fixture
def _native() -> None:
    """Skip where no compiler has built the native kernels."""
    try:
        load("cpu")
    except KernelsUnavailable as error:
        pytest.skip(str(error))
