"""`--bound` is for what this machine computes itself."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engines import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.cli.bound import BoundLimits
from agentrt.cli.main import answer

EXTRACT = Path(__file__).resolve().parents[2] / "programs" / "extract.py"


def test_other_machines_are_not_measured() -> None:
    for engine in (
        RemoteEngineConfig(address="http://localhost:8000"),
        EngineConfig(model_path=Path("x"), device="cuda"),
    ):
        with pytest.raises(UsageError, match="--bound measures this machine"):
            BoundLimits(engine)


@pytest.mark.slow
def test_a_run_tells_its_bounds(capfd: pytest.CaptureFixture[str]) -> None:
    text = "Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."
    command = ["run", str(EXTRACT), "--text", text, "--bound", "--trace", "off", "-q"]
    assert answer(command) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "x the least by the machine (reads" in line]
    assert [line for line in lines if "x the least by the engine's own steps" in line]
