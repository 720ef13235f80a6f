"""Identity of an engine: what its answers depend on, and no secrets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt import EngineConfig, RemoteEngineConfig
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engines.remote_engine_config import FleetMember

REMOTE = RemoteEngineConfig(
    kind="vllm", address="http://gpu7:8000", model="qwen", headers={"X-Key": "env:SECRET"}
)


@pytest.mark.parametrize(
    "change",
    [
        {"address": "http://gpu8:8000"},
        {"model": "llama"},
        {"kind": "sglang"},
        {"headers": {"X-Route": "b"}},
        {"project": "p"},
    ],
)
def test_a_remote_engine_is_its_address_and_its_model(change: Any) -> None:
    assert engine_identity(REMOTE) != engine_identity(replace(REMOTE, **change))
    same = replace(REMOTE, key="env:KEY", concurrency=3, name="strong", response_cache=True)
    assert engine_identity(REMOTE) == engine_identity(same)


FLEET = RemoteEngineConfig(
    kind="vllm", addresses=("http://gpu7:8000", "http://gpu8:8000"), model="qwen"
)


def test_a_fleet_is_what_its_servers_are_and_not_where() -> None:
    """Any of them may have given an answer, and there may be more of them tomorrow."""
    first = engine_identity(FLEET)
    for addresses in (FLEET.addresses[::-1], (*FLEET.addresses, "http://gpu9:8000")):
        assert engine_identity(replace(FLEET, addresses=addresses)) == first
    assert engine_identity(replace(FLEET, drain=("http://gpu8:8000",), concurrency=2)) == first
    changes: list[Any] = [{"model": "llama"}, {"kind": "sglang"}, {"headers": {"X-Route": "b"}}]
    for change in changes:
        assert engine_identity(replace(FLEET, **change)) != first
    alone = RemoteEngineConfig(kind="vllm", address="http://gpu7:8000", model="qwen")
    assert engine_identity(alone) != first, "a server by itself may be any"


def test_a_fleet_of_members_is_the_set_of_their_settings() -> None:
    one = RemoteEngineConfig(kind="vllm", address="http://gpu7:8000", model="qwen")
    other = RemoteEngineConfig(kind="sglang", address="http://gpu8:8000", model="qwen")

    def identity(*members: tuple[RemoteEngineConfig, float]) -> str:
        every = tuple(FleetMember(*each) for each in members)
        fleet = RemoteEngineConfig(members=every, response_cache=True)
        return engine_identity(fleet)

    first = identity((one, 1.0), (other, 1.0))
    assert identity((other, 2.0), (one, 1.0)) == first
    assert identity((one, 1.0), (replace(other, address="http://gpu9:8000"), 1.0)) == first
    assert identity((one, 1.0), (replace(other, model="llama"), 1.0)) != first
    assert identity((one, 1.0)) != first


def test_an_embedded_engine_is_its_files_and_what_changes_numbers(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"1")
    config = EngineConfig(tmp_path)
    first = engine_identity(config)
    assert engine_identity(replace(config, threads=3, max_running=2)) == first
    assert engine_identity(replace(config, dtype="float32")) != first
    (tmp_path / "model.safetensors").write_bytes(b"12")
    assert engine_identity(config) != first


def test_a_gguf_file_counts_by_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    first = engine_identity(EngineConfig(path))
    (tmp_path / "beside.json").write_text("{}")
    assert engine_identity(EngineConfig(path)) == first
    path.write_bytes(b"GGUF and more")
    assert engine_identity(EngineConfig(path)) != first
