"""The type of cached KV by flag and file."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_roles import engines_of_roles
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import check_formats, with_formats

MODEL = Path("model")


def test_a_flag_names_the_type() -> None:
    config = EngineConfig(MODEL, kv_cache_dtype="int8")
    assert with_formats(config, kv_cache_dtype="auto").kv_cache_dtype == "auto"
    assert with_formats(EngineConfig(MODEL), kv_cache_dtype="int8").kv_cache_dtype == "int8"
    assert with_formats(config, kv_cache_dtype="fp8").kv_cache_dtype == "fp8"
    assert with_formats(config, kv_cache_dtype="").kv_cache_dtype == "int8"
    with pytest.raises(UsageError, match="--kv-cache-dtype 'fp8_e5m2' is unknown") as caught:
        with_formats(config, kv_cache_dtype="fp8_e5m2")
    assert caught.value.hint == "give auto, int8 or fp8"


@pytest.mark.parametrize("kept", ["int8", "fp8"])
def test_the_file_names_the_type_beside_weights(kept: str, tmp_path: Path) -> None:
    path = tmp_path / "agentrt.toml"
    path.write_text(f'[engines.embedded]\nweights = "int4"\nkv_cache_dtype = "{kept}"')
    config = engines_of_roles(None, None, read_engine_file(path), MODEL)["default"]
    assert isinstance(config, EngineConfig)
    assert (config.weights, config.kv_cache_dtype) == ("int4", kept)


@pytest.mark.parametrize("given", ['"int4"', "8", '["int8"]'])
def test_the_file_names_no_other_type(given: str, tmp_path: Path) -> None:
    path = tmp_path / "agentrt.toml"
    path.write_text(f"[engines.embedded]\nkv_cache_dtype = {given}")
    with pytest.raises(UsageError, match=r"embedded\.kv_cache_dtype = .* is no format"):
        read_engine_file(path)


def test_an_unknown_type_is_refused() -> None:
    check_formats(EngineConfig(MODEL, kv_cache_dtype="int8"))
    with pytest.raises(UsageError, match="kv_cache_dtype='int4'"):
        check_formats(EngineConfig(MODEL, kv_cache_dtype="int4"))  # type: ignore[arg-type]
