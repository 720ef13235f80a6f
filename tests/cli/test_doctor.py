"""What `agentrt doctor` says of a model, in both forms."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.cli.doctor import compute_report, lines_of
from tests.cli.conftest import Told


def test_it_says_what_a_model_runs_on_and_why() -> None:
    found = compute_report(EngineConfig(model_path=embedded.path(), threads=1))
    assert found["report"]["path"] == "fast"
    assert found["report"]["kernels"] in ("cpu", "torch")
    assert found["report"]["kernels_reason"]
    assert found["threads"]["OMP_NUM_THREADS"] == "1"
    assert ("advice" in found) == (found["report"]["kernels"] == "torch")
    told = "\n".join(lines_of(found))
    assert "OMP_NUM_THREADS=1" in told
    assert found["report"]["path_reason"] in told
    assert found["report"]["self_check"] in told


def test_what_cannot_be_loaded_is_said_with_its_reason(tmp_path: Path) -> None:
    found = compute_report(EngineConfig(model_path=tmp_path))
    assert found["report"]["path"] == "unsupported"
    told = lines_of(found)
    assert any(line.startswith("path") and "config.json" in line for line in told)
    assert not any(line.startswith("kernels") for line in told)


def test_a_gpu_is_told_by_name_and_its_absence_with_a_reason(tmp_path: Path) -> None:
    found = compute_report(EngineConfig(model_path=tmp_path))
    one = {"name": "H200", "memory_bytes": 150e9, "capability": "9.0", "multiprocessors": 132}
    found["gpu"] = {"count": 1, "cuda": "13.0", "devices": [one]}
    assert "gpu            H200, 150 GB, capability 9.0" in lines_of(found)
    found["gpu"] = {"count": 0, "reason": "torch sees none"}
    assert "gpu            torch sees none" in lines_of(found)


def test_the_model_is_that_of_a_run(
    inside: Callable[..., Told], folder_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder_here / "agentrt.toml").write_text('[engines.embedded]\nmodel = "of_the_file"\n')
    of_file = inside("doctor", "--engine", "embedded")
    assert of_file.code == 3
    assert f"does not start: {folder_here / 'of_the_file'} is not a directory" in of_file.out
    monkeypatch.setenv("AGENTRT_MODEL", "of_the_environment")
    assert "does not start: of_the_environment is not a directory" in inside("doctor").out


def test_a_broken_file_hides_nothing_that_is_installed(
    inside: Callable[..., Told], folder_here: Path
) -> None:
    (folder_here / "agentrt.toml").write_text("[engines")
    told = inside("doctor")
    assert told.code == 2
    assert "agentrt.toml is not TOML" in told.out
    assert "pydantic" in told.out
