"""The shipped files: within the promised sizes, one shard. A draft model is made like them."""

import json
from pathlib import Path

from export import export
from network import DRAFT, Network
from safetensors import safe_open

from agentrt.embedded import path


def parameters(file: Path) -> int:
    """The number of parameters in a shard."""
    with safe_open(str(file), framework="numpy") as shard:
        slices = [shard.get_slice(name) for name in shard.keys()]  # noqa: SIM118
    total = 0
    for one in slices:
        assert one.get_dtype() == "BF16"
        count = 1
        for size in one.get_shape():
            count *= size
        total += count
    return total


def test_is_small():
    """At most 7 million parameters and 16 MB."""
    assert parameters(path() / "model.safetensors") <= 7_000_000
    assert sum(file.stat().st_size for file in path().rglob("*") if file.is_file()) <= 16_000_000


def test_a_draft_shares_the_tokenizer(tmp_path: Path):
    """An exported draft model reads and writes the same tokens, and is a Llama too."""
    export(DRAFT, Network(DRAFT).state_dict(), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (path() / name).read_bytes()
    assert parameters(tmp_path / "model.safetensors") < parameters(path() / "model.safetensors")
    check_llama(tmp_path)


def test_is_a_llama():
    """The shipped model is a plain checkpoint directory with tied embeddings."""
    check_llama(path())


def check_llama(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] is True
