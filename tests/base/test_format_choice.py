"""The format of weights by flag, file and environment."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engine_roles import engines_of_roles
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import check_formats, with_formats

MODEL = Path("model")


def in_file(tmp_path: Path, text: str) -> EngineConfig:
    path = tmp_path / "agentrt.toml"
    path.write_text(text, encoding="utf-8")
    config = engines_of_roles(None, None, read_engine_file(path), MODEL)["default"]
    assert isinstance(config, EngineConfig)
    return config


def test_a_flag_names_the_format() -> None:
    config = EngineConfig(MODEL, weights="int4")
    assert with_formats(config, "int8").weights == "int8"
    assert with_formats(config, "checkpoint").weights == "checkpoint"
    assert with_formats(config, "").weights == "int4"
    with pytest.raises(UsageError, match="--weights 'fp8' is no format") as caught:
        with_formats(config, "fp8")
    assert caught.value.hint == "give checkpoint, int8 or int4"
    assert with_formats(config, "", "int8").activations == "int8"
    with pytest.raises(UsageError, match="--activations 'int4' is no format") as caught:
        with_formats(config, "", "int4")
    assert caught.value.hint == "give auto, int8 or fp8"


def test_the_file_names_the_format_beside_prices(tmp_path: Path) -> None:
    assert in_file(tmp_path, '[engines.embedded]\nweights = "int4"').weights == "int4"
    both = '[engines.embedded]\nweights = "int8"\nprices = { device_second = 0.1 }'
    config = in_file(tmp_path, both)
    assert (config.weights, config.activations) == ("int8", "auto")
    rows = '[engines.embedded]\nweights = "int8"\nactivations = "int8"'
    assert in_file(tmp_path, rows).activations == "int8"
    assert config.prices is not None
    assert in_file(tmp_path, "[engines.embedded.prices]\ndevice_second = 1").weights == "checkpoint"


@pytest.mark.parametrize("given", ['"int3"', "8", '["int8"]'])
def test_the_file_names_no_other_format(given: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"engines\.embedded\.weights = .* is no format"):
        in_file(tmp_path, f"[engines.embedded]\nweights = {given}")


def test_settings_that_mean_nothing_are_refused() -> None:
    check_formats(EngineConfig(MODEL, weights="int8", weight_group=128, head_weights="int4"))
    with pytest.raises(UsageError, match="weight_group=32"):
        check_formats(EngineConfig(MODEL, weight_group=32))


def test_other_weights_answer_otherwise(tmp_path: Path) -> None:
    names = {
        engine_identity(config)
        for config in (
            EngineConfig(tmp_path),
            EngineConfig(tmp_path, weights="int8"),
            EngineConfig(tmp_path, weights="int8", weight_group=32),
            EngineConfig(tmp_path, weights="int8", head_weights="checkpoint"),
            EngineConfig(tmp_path, kv_cache_dtype="int8"),
            EngineConfig(tmp_path, kv_cache_dtype="fp8"),
        )
    }
    assert len(names) == 6
