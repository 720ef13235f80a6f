"""Write a trained network as a Hugging Face directory, as `agentrt/embedded` is one."""

import json
import shutil
from pathlib import Path

import torch
from corpus.example import EMBEDDED
from network import Shape
from safetensors.torch import save_file
from torch import Tensor

WINDOW_TOKENS = 4096


def config(shape: Shape) -> dict[str, object]:
    """The `config.json` of a Llama of this shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "max_position_embeddings": WINDOW_TOKENS,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }


def export(shape: Shape, weights: dict[str, Tensor], directory: Path) -> None:
    """Write config, generation config and weights; outside the package, the tokenizer's files too."""
    directory.mkdir(parents=True, exist_ok=True)
    generation = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "do_sample": False}
    (directory / "config.json").write_text(json.dumps(config(shape), indent=2) + "\n")
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tensors = {
        name: value.to(torch.bfloat16).contiguous().cpu() for name, value in sorted(weights.items())
    }
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)  # the library writes it for its owner only
    if directory != EMBEDDED:
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(EMBEDDED / name, directory / name)
