"""Random EAGLE-3 heads as they are published, and what one computes by the published formula."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

HIDDEN, INNER, HEADS, KV_HEADS, DIM = 32, 40, 4, 2, 16
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": 1,
    "head_dim": DIM,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": 262,
    "draft_vocab_size": 64,
    "tie_word_embeddings": False,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]},
}
CAPTURED = (1, 2, 4)
"""Layers before which the stream is taken: behind those that the config names."""


def save_head(path: Path, *, seed: int = 0, tensors: Any = None, **settings: Any) -> None:
    """A random head; `tensors` replaces some, and leaves out those that it maps to None."""
    config = {**CONFIG, **settings}
    source = torch.Generator().manual_seed(seed)
    drafted = config["draft_vocab_size"] or config["vocab_size"]

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=source).div(size[-1] ** 0.5)

    def norm() -> Tensor:
        return 1.0 + 0.1 * torch.randn(HIDDEN, generator=source)

    kept = torch.randperm(config["vocab_size"], generator=source)[:drafted].sort().values
    drafts = torch.zeros(config["vocab_size"], dtype=torch.bool)
    drafts[kept] = True
    made = {
        "fc.weight": random(HIDDEN, 3 * HIDDEN),
        "midlayer.input_layernorm.weight": norm(),
        "midlayer.hidden_norm.weight": norm(),
        "midlayer.post_attention_layernorm.weight": norm(),
        "midlayer.self_attn.q_proj.weight": random(HEADS * DIM, 2 * HIDDEN) * 3,
        "midlayer.self_attn.k_proj.weight": random(KV_HEADS * DIM, 2 * HIDDEN) * 3,
        "midlayer.self_attn.v_proj.weight": random(KV_HEADS * DIM, 2 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": random(HIDDEN, HEADS * DIM),
        "midlayer.mlp.gate_proj.weight": random(INNER, HIDDEN),
        "midlayer.mlp.up_proj.weight": random(INNER, HIDDEN),
        "midlayer.mlp.down_proj.weight": random(HIDDEN, INNER),
        "norm.weight": norm(),
        "lm_head.weight": random(drafted, HIDDEN) * 4,
        "d2t": kept - torch.arange(drafted),
        "t2d": drafts,
    }
    made = {name: one for name, one in {**made, **(tensors or {})}.items() if one is not None}
    path.mkdir(parents=True, exist_ok=True)
    save_file(made, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(config))


class HeadReference:
    """A head beside its target, in plain torch: every row anew for each question.

    Args:
        path: Directory of the head.
        target: Directory of the target.
        captured: Layers of the target before which its stream is taken.
    """

    def __init__(self, path: Path, target: Path, captured: Sequence[int] = CAPTURED) -> None:
        self.weights = load_file(path / "model.safetensors")
        self.config = json.loads((path / "config.json").read_text())
        self._captured = captured
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            target, dtype=torch.float32, attn_implementation="eager"
        )
        own = self.weights.get("embed_tokens.weight")
        shared: Any = self._model.get_input_embeddings()
        self._embedding: Tensor = shared.weight if own is None else own

    @torch.inference_mode()
    def states(self, text: Sequence[int], known: int) -> Tensor:
        """Normed states `[len(text) - 1, W]` of the rows of all tokens but the first.

        Args:
            text: Tokens of the sequence and of its draft.
            known: Tokens whose state of the target is known.
        """
        weights, length = self.weights, len(text)
        hidden = self._model(torch.tensor([text[:known]]), output_hidden_states=True).hidden_states
        fused = torch.cat([hidden[at][0] for at in self._captured], -1) @ weights["fc.weight"].T
        rows: list[Tensor] = list(fused)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        normed: list[Tensor] = []
        for at in range(length - 1):  # the row of token at + 1
            state = rows[at]
            token = self._rms(self._embedding[text[at + 1]], "midlayer.input_layernorm.weight")
            before = self._rms(state, "midlayer.hidden_norm.weight")
            x = torch.cat([token, before])
            query, key, value = (
                weights[f"midlayer.self_attn.{name}_proj.weight"] @ x for name in "qkv"
            )
            keys.append(self._turned(key.view(KV_HEADS, DIM), at))
            values.append(value.view(KV_HEADS, DIM))
            query = self._turned(query.view(HEADS, DIM), at)
            mixed = functional.scaled_dot_product_attention(
                query[:, None],
                torch.stack(keys, 1).repeat_interleave(HEADS // KV_HEADS, 0),
                torch.stack(values, 1).repeat_interleave(HEADS // KV_HEADS, 0),
            )
            own = before if self.config.get("norm_before_residual") else state
            own = own + weights["midlayer.self_attn.o_proj.weight"] @ mixed.flatten()
            inner = self._rms(own, "midlayer.post_attention_layernorm.weight")
            gate, up = (
                weights[f"midlayer.mlp.{name}_proj.weight"] @ inner for name in ("gate", "up")
            )
            own = own + weights["midlayer.mlp.down_proj.weight"] @ (functional.silu(gate) * up)
            if len(rows) == at + 1:
                rows.append(own)
            normed.append(self._rms(own, "norm.weight"))
        return torch.stack(normed)

    def logits(self, text: Sequence[int], known: int) -> Tensor:
        """Logits `[d]` behind the text, of the tokens that the head drafts."""
        return self.states(text, known)[-1] @ self.weights["lm_head.weight"].T

    @property
    def targets(self) -> Tensor:
        """`[d]`, the target's tokens that the head drafts."""
        added = self.weights["d2t"]
        return torch.arange(added.shape[0]) + added

    def _rms(self, x: Tensor, name: str) -> Tensor:
        return functional.rms_norm(x, (HIDDEN,), self.weights[name], self.config["rms_norm_eps"])

    def _turned(self, heads: Tensor, position: int) -> Tensor:
        rates = torch.tensor(self.config["rope_theta"]).pow(-torch.arange(0, DIM, 2) / DIM)
        angles = (position * rates).repeat(2)
        left, right = heads.chunk(2, -1)
        return heads * angles.cos() + torch.cat([-right, left], -1) * angles.sin()
