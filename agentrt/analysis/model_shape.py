"""Sizes of a decoder that determine the work of a forward."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
KV_SCALE_BYTES = 2
"""Bytes of the scale of a token's head in a quantised KV cache."""


@record
class ModelShape:
    """A decoder's sizes.

    Attributes:
        name: Name of the model, such as `tiny`.
        kind: `model_type` of its config.
        hidden: Width of the residual stream.
        inner: Width of the gated layer, or of one expert.
        layers: Number of layers.
        heads: Query heads.
        kv_heads: Key and value heads.
        vocabulary: Rows of the embedding.
        tied: True if the output layer is the embedding.
        experts: Experts of a layer; 1 for a dense model.
        experts_a_token: Experts that compute one token.
        biases: True if queries, keys and values have biases.
        rope_theta: Base wavelength of the position encoding.
        window_tokens: Longest context.
    """

    name: str
    kind: str
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    experts: int = 1
    experts_a_token: int = 1
    biases: bool = False
    rope_theta: float = 10_000.0
    window_tokens: int = 32_768

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    @property
    def attention_parameters(self) -> int:
        """Parameters of one layer's attention matrices."""
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one gated layer."""
        return 3 * self.hidden * self.inner

    @property
    def head_parameters(self) -> int:
        """Parameters of the output layer."""
        return self.vocabulary * self.hidden

    @property
    def router_parameters(self) -> int:
        """Parameters of the router, for each expert."""
        return self.hidden if self.experts > 1 else 0

    @property
    def parameters(self) -> int:
        """Parameters of all matrices."""
        layer = self.attention_parameters
        layer += self.experts * (self.expert_parameters + self.router_parameters)
        return self.layers * layer + self.head_parameters * (1 if self.tied else 2)

    def kv_bytes_a_token(self, dtype: str, kv_cache_dtype: str = "auto") -> int:
        """Bytes of one token's keys and values in all layers.

        Args:
            dtype: Name of the dtype in which the model computes.
            kv_cache_dtype: "auto" keeps them in it, "int8" and "fp8" as bytes with a scale for
                each head.
        """
        heads = self.layers * 2 * self.kv_heads
        if kv_cache_dtype != "auto":
            return heads * (self.head_dim + KV_SCALE_BYTES)
        return heads * self.head_dim * DTYPE_BYTES[dtype]


def shape_in(folder: Path) -> ModelShape:
    """Read the shape of a checkpoint.

    Args:
        folder: Model directory with a `config.json`.

    Raises:
        UsageError: The model is not a plain Llama, so its work is unknown.
    """
    return shape_of_config(json.loads((folder / "config.json").read_text("utf-8")), folder)


def shape_of_config(config: Mapping[str, Any], path: Path) -> ModelShape:
    """The shape that the `config.json` of a checkpoint describes.

    Args:
        config: The config, or what describes a GGUF file in its place.
        path: The checkpoint, which gives the name.

    Raises:
        UsageError: The model is not a plain Llama, so its work is unknown.
    """
    kind, heads = config.get("model_type", ""), config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    if kind != "llama" or head_dim * heads != config["hidden_size"]:
        raise UsageError(
            f"{path} is a checkpoint of {kind or 'no known kind'}", hint="Give a plain Llama"
        )
    return ModelShape(
        name=path.resolve().name,
        kind=kind,
        hidden=config["hidden_size"],
        inner=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings")),
        rope_theta=config.get("rope_theta", 10_000.0),
        window_tokens=config["max_position_embeddings"],
    )
