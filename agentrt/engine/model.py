"""Loading a Hugging Face checkpoint directory.

Plain dense decoders are computed by the engine itself, everything else through transformers. What a
loader would have to run or unpickle is refused before it is asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentrt.config import EngineConfig
from agentrt.engine.batch import ForwardBatch
from agentrt.engine.checkpoint import tensor_shapes
from agentrt.engine.dense import load_dense, random_dense
from agentrt.engine.dense_shape import DenseShape, dense_shape
from agentrt.engine.kv import KvLayout
from agentrt.errors import EngineUnavailable, ModelInvalid

Decoder = Callable[[ForwardBatch], Tensor]
"""A packed batch to the logits `[rows, vocabulary]` of its wanted rows."""

_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.msgpack", "*.h5")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SMALL_BYTES = 200 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that attends through this engine.

    Attributes:
        decoder: Computes logits.
        heads: Query heads.
        layout: Of its KV.
        window_tokens: Longest context it was made for; 0 when its config does not say.
        logits_size: Width of its logits.
        name: For people: the directory's name.
        parameters: How many.
    """

    decoder: Decoder
    heads: int
    layout: KvLayout
    window_tokens: int
    logits_size: int
    name: str
    parameters: int


def load_model(config: EngineConfig) -> LoadedModel:
    """The model of `config.model_path`.

    Raises:
        ModelInvalid: The directory lacks something, or holds what we refuse to load.
        EngineUnavailable: The device is not there.
    """
    path = config.model_path
    facts = _check(path, weights=not config.random_weights)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailable(
            "device=cuda, but torch sees no CUDA device", hint="Use --device cpu"
        )
    dtype = _dtype(config, facts)
    shape = dense_shape(facts)
    if shape is not None and (config.random_weights or shape.is_whole(tensor_shapes(path))):
        return _dense(config, shape, facts, dtype)
    _log.info("%s is not a plain dense decoder: transformers computes it", path)
    return _through_transformers(config, facts, dtype)


def _dense(
    config: EngineConfig, shape: DenseShape, facts: dict[str, Any], dtype: torch.dtype
) -> LoadedModel:
    device = torch.device(config.device)
    if config.random_weights:
        decoder = random_dense(shape, config.seed, dtype, device)
    else:
        decoder = load_dense(shape, config.model_path, dtype, device)
    return _loaded(config, decoder, dtype, facts, shape)


def _through_transformers(
    config: EngineConfig, facts: dict[str, Any], dtype: torch.dtype
) -> LoadedModel:
    from agentrt.engine.hf_model import load_hf  # takes three seconds, and mostly is not needed

    decoder = load_hf(
        config.model_path,
        dtype,
        torch.device(config.device),
        random_seed=config.seed if config.random_weights else None,
    )
    return _loaded(config, decoder, dtype, facts, _Sizes.of(decoder.config, config.model_path))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the engine needs of a transformers config."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @classmethod
    def of(cls, text: Any, path: Path) -> _Sizes:
        odd = set(getattr(text, "layer_types", None) or ()) - _PAGED_LAYERS
        if odd or getattr(text, "kv_lora_rank", None):
            what = ", ".join(sorted(odd)) or "compressed latent"
            raise ModelInvalid(
                f"{path} has {what} layers, whose state does not page",
                hint="Serve this model elsewhere and pass --engine URL",
            )
        try:
            heads = int(text.num_attention_heads)
            return cls(
                layers=int(text.num_hidden_layers),
                heads=heads,
                kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
                head_dim=int(getattr(text, "head_dim", None) or text.hidden_size // heads),
                vocabulary=int(text.vocab_size),
            )
        except AttributeError as error:
            raise ModelInvalid(
                f"the config of {path} lacks {error.name}", hint="Use a decoder-only transformer"
            ) from error


_PAGED_LAYERS = {"full_attention", "sliding_attention"}


def _loaded(
    config: EngineConfig,
    decoder: Any,
    dtype: torch.dtype,
    facts: dict[str, Any],
    sizes: DenseShape | _Sizes,
) -> LoadedModel:
    layout = KvLayout(
        layers=sizes.layers,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        page_tokens=config.page_tokens,
        dtype=dtype,
        device=torch.device(config.device),
    )
    return LoadedModel(
        decoder=decoder,
        heads=sizes.heads,
        layout=layout,
        window_tokens=int(facts.get("max_position_embeddings") or 0),
        logits_size=sizes.vocabulary,
        name=config.model_path.resolve().name,
        parameters=decoder.parameters,
    )


def _check(path: Path, *, weights: bool) -> dict[str, Any]:
    """The parsed `config.json` of a directory that may be loaded."""
    if not path.is_dir():
        raise ModelInvalid(
            f"{path} is not a directory",
            hint="Give --model a Hugging Face checkpoint directory on this machine",
        )
    file = path / "config.json"
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelInvalid(
            f"{path} has no config.json",
            hint="Give the directory that holds config.json, tokenizer.json and *.safetensors",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{file} cannot be read: {error}", hint="Copy the file again") from error
    if not isinstance(facts, dict):
        raise ModelInvalid(f"{file} holds no JSON object", hint="Copy the file again")
    if "auto_map" in facts:
        raise ModelInvalid(
            f"{file} asks to run code of its own (auto_map)",
            hint="Use a checkpoint whose architecture transformers has built in",
        )
    if facts.get("quantization_config"):
        method = dict(facts["quantization_config"]).get("quant_method", "unknown")
        raise ModelInvalid(
            f"{path} is quantised ({method}), which this engine does not load yet",
            hint="Use the checkpoint in bf16, or serve it elsewhere and pass --engine URL",
        )
    if weights and not any(path.glob("*.safetensors")):
        unsafe = sorted(found.name for pattern in _UNSAFE for found in path.glob(pattern))
        what = f"only {unsafe[0]}, which may run code" if unsafe else "no weights at all"
        raise ModelInvalid(
            f"{path} has no *.safetensors: {what}",
            hint="Save it with `model.save_pretrained(path)`, which writes safetensors",
        )
    return facts


def _dtype(config: EngineConfig, facts: dict[str, Any]) -> torch.dtype:
    """What the model computes in.

    "auto" takes what the checkpoint was saved in, but fp32 for a small one on a CPU: bf16 wins
    little there, and its rounding depends on the batch, so a seed would not fix the tokens.
    """
    if config.dtype != "auto":
        return _DTYPES[config.dtype]
    saved_bytes = sum(file.stat().st_size for file in config.model_path.glob("*.safetensors"))
    if config.device == "cpu" and saved_bytes < _SMALL_BYTES:
        return torch.float32
    name = str(facts.get("dtype") or facts.get("torch_dtype") or "float32")
    return _DTYPES.get(name.removeprefix("torch."), torch.float32)
