"""`--bound` is for what this machine computes itself."""

from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.engines import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.cli.bound import BoundLimits, embedded_work
from agentrt.cli.main import answer
from tests.evaluation.packed_model import write_packed

EXTRACT = Path(__file__).resolve().parents[2] / "programs" / "extract.py"


def test_other_machines_are_not_measured() -> None:
    for engine in (
        RemoteEngineConfig(address="http://localhost:8000"),
        EngineConfig(model_path=Path("x"), device="cuda"),
    ):
        with pytest.raises(UsageError, match="--bound measures this machine"):
            BoundLimits(engine)


def test_quantised_weights_are_counted_as_they_are_read(tmp_path: Path) -> None:
    plain = embedded_work(EngineConfig(embedded.path()))
    eight = embedded_work(EngineConfig(embedded.path(), weights="int8"))
    packed = embedded_work(EngineConfig(write_packed(tmp_path / "packed.gguf")))
    head = 1536 * 128
    layers = plain.weight_bytes / 4 - head  # fp32 for so small a model
    assert eight.weight_bytes == layers + head
    assert packed.weight_bytes == layers * 34 / 32 + head * 4  # the tied head is stored in fp32
    assert packed.flops_a_token == plain.flops_a_token
    assert packed.kv_bytes_a_token == plain.kv_bytes_a_token


def test_quantised_kv_is_counted_as_it_is_read() -> None:
    plain, eight, floats = (
        embedded_work(EngineConfig(embedded.path(), kv_cache_dtype=kept))
        for kept in ("auto", "int8", "fp8")
    )
    heads = 6 * 2 * 2  # layers, keys and values, heads of each
    assert plain.kv_bytes_a_token == heads * 32 * 4  # fp32 for so small a model
    assert eight.kv_bytes_a_token == floats.kv_bytes_a_token == heads * (32 + 2)
    assert eight.weight_bytes == plain.weight_bytes


@pytest.mark.slow
def test_a_run_tells_its_bounds(capfd: pytest.CaptureFixture[str]) -> None:
    text = "Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."
    command = ["run", str(EXTRACT), "--text", text, "--bound", "--trace", "off", "-q"]
    assert answer(command) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "x the least by the machine (reads" in line]
    assert [line for line in lines if "x the least by the engine's own steps" in line]
