"""One wheel with two import packages, what the command begins with, and the embedded model."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def files() -> set[str]:
    """What the wheel would hold, as the build backend lists it."""
    from hatchling.builders.wheel import WheelBuilder

    builder = WheelBuilder(str(ROOT))
    return {included.distribution_path for included in builder.recurse_included_files()}


def test_two_import_packages_and_the_command(files: set[str]) -> None:
    tops = {name.split("/")[0] for name in files}
    assert tops == {"agentrt", "agentrt_command.py", "agentrt_pytest.py", "agentrt_kernels"}


def test_types_are_shipped(files: set[str]) -> None:
    assert {"agentrt/py.typed", "agentrt_kernels/py.typed"} <= files


def test_every_module_is_shipped(files: set[str]) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "agentrt").rglob("*.py")}
    assert modules <= files


def test_the_sources_of_native_kernels_are_shipped(files: set[str]) -> None:
    kernels = ROOT / "kernels"
    sources = {str(path.relative_to(kernels)) for path in kernels.rglob("source/*.*")}
    assert "agentrt_kernels/cpu/source/native.cpp" in sources
    assert sources <= files


def test_the_embedded_model_is_shipped(files: set[str]) -> None:
    for part in ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"):
        assert f"agentrt/embedded/{part}" in files
    weights = {name for name in files if name.endswith(".safetensors")}
    assert weights == {"agentrt/embedded/model.safetensors"}
    data = (path for path in (ROOT / "agentrt" / "embedded").rglob("*.*") if path.suffix != ".pyc")
    assert {str(path.relative_to(ROOT)) for path in data} <= files


def test_the_files_of_init_are_shipped(files: set[str]) -> None:
    found = {name for name in files if name.startswith("agentrt/cli/starter/")}
    assert len(found) == 5


def test_the_embedded_model_is_small() -> None:
    weights = sorted((ROOT / "agentrt" / "embedded").rglob("*.safetensors"))
    assert weights
    assert sum(path.stat().st_size for path in weights) <= 16_000_000
