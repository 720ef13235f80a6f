"""The named shapes that the bench can make random weights of, and what a step of each costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_LARGE_PARAMETERS = 100_000_000


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's sizes.

    Attributes:
        name: As `--shape` takes it.
        kind: Its `model_type`.
        hidden: Width of the residual stream.
        inner: Width of the gated layer, of one expert where there are several.
        layers: How many.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        vocabulary: Rows of the embedding.
        tied: The output layer is the embedding.
        experts: Gated layers to choose from; 1 chooses nothing.
        experts_a_token: Of those, used for one token.
        biases: Queries, keys and values have biases.
        rope_theta: Base wavelength of positions.
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
        """Matrices of one layer's attention."""
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Matrices of one gated layer."""
        return 3 * self.hidden * self.inner

    @property
    def head_parameters(self) -> int:
        """The output layer."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """Of all matrices."""
        layer = self.attention_parameters + self.experts * (self.expert_parameters + self.router)
        return self.layers * layer + self.head_parameters * (1 if self.tied else 2)

    @property
    def is_large(self) -> bool:
        """Whether two cores take so long for it that less of it is measured."""
        return self.parameters > _LARGE_PARAMETERS

    @property
    def router(self) -> int:
        """A router's parameters, for each of its experts."""
        return self.hidden if self.experts > 1 else 0

    def kv_bytes_a_token(self, dtype: str) -> int:
        """Keys and values of one token in all layers."""
        return self.layers * 2 * self.kv_heads * self.head_dim * DTYPE_BYTES[dtype]

    def config(self, dtype: str) -> dict[str, Any]:
        """The `config.json` of a checkpoint of this shape."""
        facts: dict[str, Any] = {
            "architectures": [_ARCHITECTURES[self.kind]],
            "model_type": self.kind,
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "rms_norm_eps": 1e-5,
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "tie_word_embeddings": self.tied,
            "max_position_embeddings": self.window_tokens,
            "initializer_range": 0.02,
            "bos_token_id": 256,
            "eos_token_id": 257,
            "dtype": dtype,
        }
        if self.kind == "qwen2":
            facts |= {"use_sliding_window": False}
        if self.experts > 1:
            facts |= {
                "num_local_experts": self.experts,
                "num_experts_per_tok": self.experts_a_token,
                "sliding_window": None,
            }
        return facts


_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
}

SHAPES: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape("micro", "llama", 64, 128, 2, 4, 2, 512, tied=True, window_tokens=4096),
        ModelShape(
            "micro-qwen2", "qwen2", 64, 128, 2, 4, 2, 512, True, biases=True, window_tokens=4096
        ),
        ModelShape(
            "micro-mixtral",
            "mixtral",
            64,
            96,
            2,
            4,
            2,
            512,
            False,
            experts=4,
            experts_a_token=2,
            window_tokens=4096,
        ),
        ModelShape("tiny", "llama", 384, 1024, 8, 6, 2, 8192, tied=True),
        ModelShape("half", "llama", 1024, 2816, 24, 16, 4, 32_000, tied=True),
        ModelShape(
            "qwen2.5-0.5b",
            "qwen2",
            896,
            4864,
            24,
            14,
            2,
            151_936,
            tied=True,
            biases=True,
            rope_theta=1e6,
        ),
        ModelShape(
            "llama-3.1-8b",
            "llama",
            4096,
            14_336,
            32,
            32,
            8,
            128_256,
            tied=False,
            rope_theta=500_000.0,
        ),
        ModelShape(
            "mixtral-scaled",
            "mixtral",
            1024,
            2816,
            12,
            16,
            4,
            32_000,
            tied=False,
            experts=8,
            experts_a_token=2,
            rope_theta=1e6,
        ),
    )
}


def shape_in(folder: Path) -> ModelShape:
    """The shape of a checkpoint that somebody else wrote.

    Raises:
        UsageError: It is of another kind than the bench knows.
    """
    facts = json.loads((folder / "config.json").read_text("utf-8"))
    kind = facts.get("model_type", "")
    head_dim = facts.get("head_dim") or facts["hidden_size"] // facts["num_attention_heads"]
    if kind != "llama" or head_dim * facts["num_attention_heads"] != facts["hidden_size"]:
        raise UsageError(
            f"{folder} is a checkpoint of {kind or 'no known kind'}", hint="Give a plain Llama"
        )
    return ModelShape(
        name=folder.resolve().name,
        kind=kind,
        hidden=facts["hidden_size"],
        inner=facts["intermediate_size"],
        layers=facts["num_hidden_layers"],
        heads=facts["num_attention_heads"],
        kv_heads=facts.get("num_key_value_heads") or facts["num_attention_heads"],
        vocabulary=facts["vocab_size"],
        tied=bool(facts.get("tie_word_embeddings")),
        rope_theta=facts.get("rope_theta", 10_000.0),
        window_tokens=facts["max_position_embeddings"],
    )


def shape_named(name: str) -> ModelShape:
    """The shape of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in SHAPES:
        raise UsageError(f"there is no shape {name!r}", hint=f"Use one of {', '.join(SHAPES)}")
    return SHAPES[name]
