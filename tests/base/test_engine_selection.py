"""Flags and environment name an engine in the same way."""

from pathlib import Path

import pytest

from agentrt import RemoteEngineConfig, UsageError
from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import EngineFile

URL = "http://localhost:8000"


def test_the_environment_names_engine_model_and_device() -> None:
    environ = {"AGENTRT_ENGINE": URL, "AGENTRT_MODEL": "qwen", "AGENTRT_DEVICE": "cuda"}
    assert EngineSelection.from_environment(environ) == EngineSelection(URL, "qwen", None, "cuda")
    assert EngineSelection.from_environment({}) == EngineSelection()


def test_a_model_directory_is_for_the_embedded_engine() -> None:
    default, file = Path("default"), EngineFile()
    assert EngineSelection().settings(file, default) == EngineConfig(default)
    assert EngineSelection(model="mine").settings(file, default) == EngineConfig(Path("mine"))
    there = RemoteEngineConfig(address=URL, model="qwen", key="env:KEY")
    assert EngineSelection(URL, "qwen", "env:KEY").settings(file, default) == there


def test_the_model_that_ships_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, file = Path("shipped"), EngineFile(embedded_formats={"model_path": Path("mine")})
    assert EngineSelection().settings(file, shipped) == EngineConfig(Path("mine"))
    named = EngineSelection(model="embedded")
    assert named.settings(file, shipped) == EngineConfig(shipped)
    monkeypatch.chdir(tmp_path)
    Path("embedded").mkdir()
    assert named.settings(file, shipped) == EngineConfig(Path("embedded")), "a path goes first"


@pytest.mark.parametrize(
    "selection", [EngineSelection(model="embeded"), EngineSelection("embeded")]
)
def test_a_mistyped_name_is_compared_with_it(selection: EngineSelection) -> None:
    with pytest.raises(UsageError) as caught:
        selection.settings(EngineFile(), Path("shipped"))
    assert "'embeded'" in caught.value.message
    assert "did you mean embedded?" in caught.value.hint


def test_what_is_given_overrides_the_environment() -> None:
    environment = EngineSelection(URL, "qwen", "env:KEY")
    assert environment.overridden(None, "other", None, None) == EngineSelection(
        URL, "other", "env:KEY"
    )
    other = environment.overridden("http://other", None, None, None)
    assert other == EngineSelection("http://other"), "model and key are those of the first"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"AGENTRT_ENGINE": "localhost:8000"}, "'localhost:8000' is no engine"),
        ({"AGENTRT_ENGINE": "ftp://x"}, "'ftp://x' is no engine"),
        ({"AGENTRT_DEVICE": "tpu"}, "'tpu' is no device"),
    ],
)
def test_unknown_values_are_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        EngineSelection.from_environment(environ).settings(EngineFile(), Path())


def test_a_key_is_for_a_server() -> None:
    with pytest.raises(UsageError, match="for an engine with an address"):
        EngineSelection(api_key="env:KEY").settings(EngineFile(), Path())
