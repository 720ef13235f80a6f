"""Which checkpoints are plain dense decoders that the engine computes itself.

Llama, Qwen2, Qwen3 and Mistral differ in three places only. What is not known to be exactly one of
them, by its config and by the names of its weights, is left to transformers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_KINDS = ("llama", "mistral", "qwen2", "qwen3")
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions.

    Attributes:
        theta: Base wavelength.
        llama3: Factor, low and high frequency factor and original length of Llama 3.1's stretch,
            or None.
    """

    theta: float
    llama3: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class DenseShape:
    """A dense decoder.

    Attributes:
        hidden: Width of the residual stream.
        inner: Width of the gated layer.
        layers: How many.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        vocabulary: Rows of the embedding.
        epsilon: Of the norms.
        rope: Positions.
        window: Each token sees this many; None sees all.
        biases: Queries, keys and values have biases.
        head_norms: Queries and keys are normed head by head.
        tied: The output layer is the embedding.
        initial_deviation: Of random weights.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    epsilon: float
    rope: Rope
    window: int | None
    biases: bool
    head_norms: bool
    tied: bool
    initial_deviation: float

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights, as checkpoints have them."""
        query, pair = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, self.hidden),
            "model.norm.weight": (self.hidden,),
        }
        if not self.tied:
            found["lm_head.weight"] = (self.vocabulary, self.hidden)
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            found |= {
                f"{at}input_layernorm.weight": (self.hidden,),
                f"{at}post_attention_layernorm.weight": (self.hidden,),
                f"{at}self_attn.q_proj.weight": (query, self.hidden),
                f"{at}self_attn.k_proj.weight": (pair, self.hidden),
                f"{at}self_attn.v_proj.weight": (pair, self.hidden),
                f"{at}self_attn.o_proj.weight": (self.hidden, query),
                f"{at}mlp.gate_proj.weight": (self.inner, self.hidden),
                f"{at}mlp.up_proj.weight": (self.inner, self.hidden),
                f"{at}mlp.down_proj.weight": (self.hidden, self.inner),
            }
            if self.biases:
                found |= {
                    f"{at}self_attn.q_proj.bias": (query,),
                    f"{at}self_attn.k_proj.bias": (pair,),
                    f"{at}self_attn.v_proj.bias": (pair,),
                }
            if self.head_norms:
                found |= {
                    f"{at}self_attn.q_norm.weight": (self.head_dim,),
                    f"{at}self_attn.k_norm.weight": (self.head_dim,),
                }
        return found

    def is_whole(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        """Whether a checkpoint holds exactly these weights."""
        mine = self.weights()
        known = {name: shape for name, shape in shapes.items() if not _is_idle(name, mine)}
        return known == mine


def dense_shape(facts: dict[str, Any]) -> DenseShape | None:
    """The shape that a `config.json` describes; None unless it is plainly one of ours."""
    kind = facts.get("model_type")
    rope = _rope(facts)
    sizes = [facts.get(name) for name in _SIZES]
    if kind not in _KINDS or rope is None or not _are_positive(sizes):
        return None
    if facts.get("hidden_act") != "silu" or facts.get("attention_bias") or facts.get("mlp_bias"):
        return None
    if facts.get("use_sliding_window") or set(facts.get("layer_types") or ()) - {"full_attention"}:
        return None
    if "rms_norm_eps" not in facts or "tie_word_embeddings" not in facts:
        return None  # defaults differ by kind and version
    if (kind == "mistral" and "sliding_window" not in facts) or (
        kind == "qwen3" and not facts.get("head_dim")
    ):
        return None
    hidden, inner, heads, layers, kv_heads, vocabulary = (int(size) for size in sizes if size)
    return DenseShape(
        hidden=hidden,
        inner=inner,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=int(facts.get("head_dim") or hidden // heads),
        vocabulary=vocabulary,
        epsilon=float(facts["rms_norm_eps"]),
        rope=rope,
        window=facts.get("sliding_window") if kind == "mistral" else None,
        biases=kind == "qwen2",
        head_norms=kind == "qwen3",
        tied=bool(facts["tie_word_embeddings"]),
        initial_deviation=float(facts.get("initializer_range") or 0.02),
    )


def _rope(facts: dict[str, Any]) -> Rope | None:
    told = facts.get("rope_parameters") or {
        "rope_theta": facts.get("rope_theta"),
        **(facts.get("rope_scaling") or {}),
    }
    theta = told.get("rope_theta") or facts.get("rope_theta")
    kind = told.get("rope_type") or told.get("type") or "default"
    if not isinstance(theta, int | float) or told.get("partial_rotary_factor", 1.0) != 1.0:
        return None
    if kind == "default":
        return Rope(float(theta))
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    if kind != "llama3" or not _are_positive([told.get(name) for name in names]):
        return None
    factor, low, high, length = (float(told[name]) for name in names)
    return Rope(float(theta), (factor, low, high, length))


def _are_positive(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and value > 0 for value in values)


def _is_idle(name: str, known: dict[str, tuple[int, ...]]) -> bool:
    """Whether a checkpoint's tensor is one that models do not read."""
    return name.endswith("rotary_emb.inv_freq") or (name == "lm_head.weight" and name not in known)
