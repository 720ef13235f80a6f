"""Every program gives the same with drafts as without, run as its docstring says."""

import json
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from tests.test_examples import PROGRAMS, commands_of, in_thread

pytestmark = [pytest.mark.model, pytest.mark.slow]
__all__ = ["in_thread"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_drafts_change_no_output_of_a_program(
    path: Path,
    in_thread: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the embedded model in float32, greedy or at a temperature, as the program declares."""
    for _, _, _, *flags in commands_of(path):
        told = []
        for tokens in ("off", "7", "auto"):
            assert answer(["run", str(path), *flags, "--json", "--speculate-tokens", tokens]) == 0
            told.append(json.loads(capsys.readouterr().out)["output"])
        assert told[0] == told[1] == told[2]
