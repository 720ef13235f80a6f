"""The shipped files: within the promised sizes, one shard each, one tokenizer."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from agentrt.embedded import draft_path, path

WEIGHTS = [directory / "model.safetensors" for directory in (path(), draft_path())]


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
    """At most 7 million parameters and 16 MB together."""
    assert sum(parameters(file) for file in WEIGHTS) <= 7_000_000
    assert sum(file.stat().st_size for file in path().rglob("*") if file.is_file()) <= 16_000_000


def test_draft_shares_the_tokenizer():
    """The draft model reads and writes the same tokens."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (draft_path() / name).read_bytes() == (path() / name).read_bytes()


@pytest.mark.parametrize("directory", [path(), draft_path()], ids=["main", "draft"])
def test_is_a_llama(directory: Path):
    """A plain checkpoint directory with tied embeddings."""
    config = json.loads((directory / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] is True
