"""Which arms a row has."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.arms import peer_files
from agentrt.lab.arms.llama_server import weights_of_kind
from agentrt.lab.arms.peer_files import QUANTISED, PeerFiles
from agentrt.lab.bench.compound.open_arms import ARMS
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.variants import our_arm, peer_arms
from agentrt.lab.checkpoints.shapes import SHAPES

MICRO = SHAPES["micro"]
ALONE = SweepPoint(4, 64, 8, 0, "bfloat16")
SHARED = SweepPoint(4, 64, 8, 32, "bfloat16")


@pytest.fixture
def files(tmp_path: Path) -> PeerFiles:
    (tmp_path / f"bfloat16-{peer_files._VERSION}.gguf").touch()
    return PeerFiles(tmp_path / "peers", tmp_path)


def variants(peer: str, row: SweepPoint, files: PeerFiles, cores: int = 2, device: str = "cpu"):
    return [arm.variant for arm in peer_arms(peer, row, MICRO, files, device=device, cores=cores)]


def test_a_peer_is_tried_with_every_number_of_threads(files: PeerFiles) -> None:
    assert variants("llama.cpp", ALONE, files) == ["1t", "2t"]
    assert variants("llama.cpp", ALONE, files, cores=1) == ["1t"]
    assert variants("llama.cpp", ALONE, files, cores=16) == ["1t", "8t", "16t"]


def test_transformers_is_tried_with_both_ways_to_wait(files: PeerFiles) -> None:
    arms = peer_arms("hf", ALONE, MICRO, files, device="cpu", cores=2)
    assert [arm.variant for arm in arms] == ["1t", "2t passive", "2t active"]
    assert [arm.env.get("OMP_WAIT_POLICY") for arm in arms] == [None, "PASSIVE", "ACTIVE"]
    assert variants("hf", ALONE, files, device="cuda") == ["2t"]


def test_llama_cpp_may_keep_a_shared_prefix_either_way(files: PeerFiles) -> None:
    arms = peer_arms("llama.cpp", SHARED, MICRO, files, device="cpu", cores=1)
    assert [arm.variant for arm in arms] == ["1t", "1t one cache"]
    assert [arm.settings["unified"] for arm in arms] == [False, True]
    assert arms[0].settings["context_tokens"] >= 4 * (64 + 8)


def test_one_process_serves_the_rows_that_it_can(files: PeerFiles) -> None:
    """transformers needs to know nothing of a row, llama.cpp how large its cache is."""
    larger = SweepPoint(8, 640, 8, 0, "bfloat16")
    for peer, alike in (("hf", True), ("llama.cpp", False)):
        first, second = (
            [arm.key for arm in peer_arms(peer, row, MICRO, files, device="cpu", cores=2)]
            for row in (ALONE, larger)
        )
        assert (first == second) is alike


@pytest.mark.parametrize(("weights", "theirs"), [("int8", "q8_0"), ("int4", "q4_0")])
def test_quantised_weights_meet_those_of_llama_cpp(
    weights: str, theirs: str, files: PeerFiles
) -> None:
    (plain,) = files.checkpoint.glob("bfloat16-*.gguf")
    plain.with_name(plain.name.replace("bfloat16", theirs)).touch()
    row = SweepPoint(4, 64, 8, 0, "bfloat16", weights)
    assert row.name.endswith(f"bfloat16 {weights}")
    (arm,) = peer_arms("llama.cpp", row, MICRO, files, device="cpu", cores=1)
    assert arm.variant == f"1t {theirs}"
    assert Path(arm.settings["model"]).name.startswith(theirs)
    bytes_read = row.decode_work(MICRO).weight_bytes
    assert bytes_read < 0.6 * ALONE.decode_work(MICRO).weight_bytes


@pytest.mark.parametrize("weights", ["checkpoint", "int8", "int4"])
def test_openvino_computes_prompts_beside_outputs_or_alone(weights: str, files: PeerFiles) -> None:
    (plain,) = files.checkpoint.glob("bfloat16-*.gguf")
    made = plain.with_name(plain.name.replace("bfloat16", "float16"))
    if weights != "checkpoint":
        made = plain.with_name(plain.stem.replace("bfloat16", f"openvino-{weights}"))
    made.touch()
    row = SweepPoint(4, 64, 8, 0, "bfloat16", weights)
    arms = peer_arms("openvino", row, MICRO, files, device="cpu", cores=1)
    assert [arm.settings["model"] for arm in arms] == [str(made)] * 2
    assert [arm.settings["prompts_alone"] for arm in arms] == [False, True]
    assert arms[0].settings["kv_tokens"] >= 2 * 4 * (64 + 8)


def test_our_engine_holds_every_row_and_runs_as_the_product_does(tmp_path: Path) -> None:
    larger = SweepPoint(100, 64, 8, 0, "bfloat16")
    arm = our_arm([ALONE, larger], tmp_path, {"threads": 2, "kernels": "torch"})
    assert arm.settings["kv_pages"] == max(ALONE.pages, larger.pages)
    assert arm.settings["max_running"] == 100
    assert arm.settings["dtype"] == "bfloat16"
    assert arm.env["OMP_NUM_THREADS"] == "2"
    assert "step_tokens" not in arm.settings  # as it is for everybody


def test_a_gguf_is_written_in_dtypes_that_it_has(files: PeerFiles) -> None:
    with pytest.raises(UsageError, match="int8"):
        files.gguf(MICRO, "int8")


@pytest.mark.parametrize("weights", QUANTISED)
def test_quantised_weights_are_a_server_of_their_own(weights: str, files: PeerFiles) -> None:
    """A file that was made is taken as it is; another one is made from the bfloat16 file."""
    (plain,) = files.checkpoint.glob("bfloat16-*.gguf")
    made = plain.with_name(plain.name.replace("bfloat16", weights))
    made.touch()
    assert files.gguf(MICRO, weights) == made
    assert weights_of_kind(f"llama-server-{weights}") == weights
    assert weights_of_kind("llama-server") == ""
    assert f"asyncio+llama-server-{weights}" in ARMS
    with pytest.raises(UsageError, match="make peers"):
        files.check(f"llama-server-{weights}")


def test_the_peers_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTRT_PEERS", str(tmp_path))
    assert peer_files.peer_files().root == tmp_path
    with pytest.raises(UsageError, match="make peers"):
        peer_files.peer_files(tmp_path).check("llama.cpp")
