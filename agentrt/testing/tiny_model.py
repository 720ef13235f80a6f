"""A tiny model directory: the embedded model's tokenizer and chat template, without weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from agentrt import embedded
from agentrt.base.config import EngineConfig

_WIRE_FORMAT = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def tiny_engine(folder: Path, *, seed: int = 0) -> EngineConfig:
    """An engine with two random layers and the embedded model's tokenizer and chat template.

    Its output is noise, the same each time. It suffices for tests of engines rather than answers:
    constraints hold, limits count, tokens flow.

    Args:
        folder: Folder that becomes the model directory.
        seed: Seed of the random weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in _WIRE_FORMAT:
        shutil.copy(embedded.path() / name, folder / name)
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 1 + max(*tokenizer["model"]["vocab"].values(), *ids.values()),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        # With all of these fields the engine starts without transformers.
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": ids["<|begin|>"],
        "eos_token_id": ids["<|end|>"],
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return EngineConfig(model_path=folder, kv_pages=512, threads=1, seed=seed, random_weights=True)
