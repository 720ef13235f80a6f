"""Loading a Hugging Face checkpoint directory.

transformers builds the model on the meta device and streams the safetensors shards into it, with
the conversions that its architecture needs. What it would run or unpickle is refused before that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from agentrt.config import EngineConfig
from agentrt.engine.attention import NAME, attend
from agentrt.engine.kv import KvLayout
from agentrt.errors import EngineUnavailable, ModelInvalid

_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.msgpack", "*.h5")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SMALL_BYTES = 200 << 20

AttentionInterface.register(NAME, attend)  # type: ignore[no-untyped-call, unused-ignore]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that attends through this engine.

    Attributes:
        module: The transformers model, in evaluation mode.
        heads: Query heads.
        layout: Of its KV.
        window_tokens: Longest context it was made for; 0 when its config does not say.
        logits_size: Width of its logits.
        name: For people: the directory's name.
        parameters: How many.
    """

    module: nn.Module
    heads: int
    layout: KvLayout
    window_tokens: int
    logits_size: int
    name: str
    parameters: int

    def forward(self, token_ids: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        """Logits of the wanted rows.

        Args:
            token_ids: `[1, tokens]`.
            positions: `[1, tokens]`.
            wanted: `[rows]` indices into the tokens.

        Returns:
            `[rows, logits_size]`, fp32.
        """
        out = self.module(
            input_ids=token_ids, position_ids=positions, use_cache=False, logits_to_keep=wanted
        )
        logits: Tensor = out.logits[0]
        return logits.float()


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
    speech: Any = transformers_logging
    speech.disable_progress_bar()
    verbosity = speech.get_verbosity()
    speech.set_verbosity_error()
    try:
        settings = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        dtype = _dtype(config, settings, path)
        if config.random_weights:
            torch.manual_seed(config.seed)
            build: Any = AutoModelForCausalLM.from_config
            module = build(settings, dtype=dtype, attn_implementation=NAME)
        else:
            module = _load_weights(path, settings, dtype)
    except (ModelInvalid, EngineUnavailable):
        raise
    except Exception as error:  # whatever transformers raises about a directory is about the model
        raise ModelInvalid(
            f"{path} cannot be loaded: {type(error).__name__}: {_first_line(error)}",
            hint="Give a directory with a causal language model that transformers knows",
        ) from error
    finally:
        speech.set_verbosity(verbosity)
    module = module.to(config.device).eval()
    return _describe(config, module, settings, facts, dtype)


def _load_weights(path: Path, settings: Any, dtype: torch.dtype) -> Any:
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        path,
        config=settings,
        dtype=dtype,
        attn_implementation=NAME,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    module, report = loaded
    missing = sorted(report["missing_keys"])
    mismatched = sorted(str(key) for key in report["mismatched_keys"])
    if missing or mismatched:
        what, keys = ("lacks", missing) if missing else ("has the wrong shape for", mismatched)
        raise ModelInvalid(
            f"the checkpoint in {path} {what} {len(keys)} weights, {keys[0]} first",
            hint="Copy the directory again: config.json and *.safetensors do not belong together",
        )
    return module


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
        raise ModelInvalid(
            f"{file} cannot be read: {_first_line(error)}", hint="Copy the file again"
        ) from error
    if not isinstance(facts, dict):
        raise ModelInvalid(f"{file} holds no JSON object", hint="Copy the file again")
    if "auto_map" in facts:
        raise ModelInvalid(
            f"{file} asks to run code of its own (auto_map)",
            hint="Use a checkpoint whose architecture transformers has built in",
        )
    if "quantization_config" in facts:
        method = facts["quantization_config"].get("quant_method", "unknown")
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


def _dtype(config: EngineConfig, settings: Any, path: Path) -> torch.dtype:
    """What the model computes in.

    "auto" takes what the checkpoint was saved in, but fp32 for a small one on a CPU: bf16 wins
    nothing there, and its rounding depends on the batch, so a seed would not fix the tokens.
    """
    if config.dtype != "auto":
        return _DTYPES[config.dtype]
    saved = getattr(settings, "dtype", None)
    if isinstance(saved, str):
        saved = _DTYPES.get(saved.removeprefix("torch."))
    saved_bytes = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    if config.device == "cpu" and saved_bytes < _SMALL_BYTES:
        return torch.float32
    return saved if isinstance(saved, torch.dtype) else torch.float32


def _describe(
    config: EngineConfig, module: Any, settings: Any, facts: dict[str, Any], dtype: torch.dtype
) -> LoadedModel:
    text = settings.get_text_config() if hasattr(settings, "get_text_config") else settings
    kinds = set(getattr(text, "layer_types", None) or ())
    odd = kinds - {"full_attention", "sliding_attention"}
    if odd or getattr(text, "kv_lora_rank", None):
        what = ", ".join(sorted(odd)) or "compressed latent"
        raise ModelInvalid(
            f"{config.model_path} has {what} layers, whose state does not page",
            hint="Serve this model elsewhere and pass --engine URL",
        )
    try:
        heads = int(text.num_attention_heads)
        layers = int(text.num_hidden_layers)
        kv_heads = int(getattr(text, "num_key_value_heads", None) or heads)
        head_dim = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
        vocabulary = int(text.vocab_size)
    except AttributeError as error:
        raise ModelInvalid(
            f"the config of {config.model_path} lacks {error.name}",
            hint="Use a decoder-only transformer",
        ) from error
    return LoadedModel(
        module=module,
        heads=heads,
        layout=KvLayout(
            layers, kv_heads, head_dim, config.page_tokens, dtype, torch.device(config.device)
        ),
        window_tokens=int(getattr(text, "max_position_embeddings", None) or 0),
        logits_size=vocabulary,
        name=str(facts.get("_name_or_path") or "") or config.model_path.name,
        parameters=sum(weight.numel() for weight in module.parameters()),
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
