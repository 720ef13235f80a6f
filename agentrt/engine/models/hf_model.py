"""Any other causal language model: the modelling code of transformers on the engine's attention.

transformers builds the model on the meta device and streams the safetensors shards into it, with
the conversions that its architecture needs. Importing it takes three seconds, hence only here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
)

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models import hf_description
from agentrt.engine.models.checkpoint import read_config, tensors
from agentrt.engine.models.hf_description import describe_attention, first_line, refusal
from agentrt.engine.ops.attention import NAME, attend

_PAGED_LAYERS = {"full_attention", "sliding_attention"}

AttentionInterface.register(NAME, attend)  # type: ignore[no-untyped-call, unused-ignore]


class HfNetwork:
    """A transformers model, called with packed batches.

    Attributes:
        module: The model, in evaluation mode.
        parameters: Number of parameters.
        vocabulary: Width of its logits.
        attention: Attention of its layers.
        layer_sizes: Zeros, as its layers are not exposed.
        layer_outputs: See `Network`.

    Raises:
        ModelInvalid: The engine's attention does not compute what its layers compute.
    """

    is_single_call = False
    quantised_bytes = 0
    layer_sizes = (0, 0)

    def __init__(self, module: Any) -> None:
        self.layer_outputs: Tensor | None = None
        self.module = module.eval()
        module.set_attn_implementation(hf_description.NAME)
        self.attention = describe_attention(module)
        module.set_attn_implementation(NAME)
        self.vocabulary = int(module.config.get_text_config().vocab_size)
        self.parameters = sum(weight.numel() for weight in module.parameters())

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Do nothing: transformers allocates its tensors in each forward."""

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the batch's `logit_rows`."""
        out = self.module(
            input_ids=batch.fields.token_ids[None],
            position_ids=batch.fields.positions[None],
            use_cache=False,
            logits_to_keep=batch.logit_rows,
        )
        logits: Tensor = out.logits[0]
        wanted = (batch.logit_rows.shape[0], self.vocabulary)
        if logits.shape != wanted:
            name, got = type(self.module).__name__, tuple(logits.shape)
            raise refusal(f"{name} returns logits of shape {got} where {wanted} is wanted")
        return logits


def load_hf(
    path: Path, dtype: torch.dtype, device: torch.device, *, random_seed: int | None
) -> HfNetwork:
    """Load the model in `path`, with random weights if a seed is given.

    Raises:
        ModelInvalid: transformers cannot build a model from it.
    """
    hf_logging: Any = transformers.utils.logging
    hf_logging.disable_progress_bar()
    verbosity = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        hf_config = _hf_config(path)
        _check_config(hf_config, path)
        if random_seed is None:
            return HfNetwork(_load(path, hf_config, dtype).to(device))
        torch.manual_seed(random_seed)
        build: Any = AutoModelForCausalLM.from_config
        return HfNetwork(build(hf_config, dtype=dtype, attn_implementation=NAME).to(device))
    except ModelInvalid:
        raise
    except Exception as error:  # any error of transformers here is about the model
        if isinstance(error, KeyError) and error.args == (NAME,):
            raise refusal(f"{path} takes its attention from a list of its own") from error
        raise ModelInvalid(
            f"{path} cannot be loaded: {first_line(error)}",
            hint="Give a directory with a causal language model that transformers knows",
        ) from error
    finally:
        hf_logging.set_verbosity(verbosity)


def _hf_config(path: Path) -> Any:
    if is_gguf(path):
        return AutoConfig.for_model(**read_config(path, weights=False))
    return AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)


def _check_config(hf_config: Any, path: Path) -> None:
    """Refuse what cannot page, before any weight is read."""
    if type(hf_config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise refusal(f"{path}: transformers has no causal model of type {hf_config.model_type}")
    text = hf_config.get_text_config()
    odd = set(getattr(text, "layer_types", None) or ()) - _PAGED_LAYERS
    if odd or getattr(text, "kv_lora_rank", None):
        what = ", ".join(sorted(odd)) or "compressed latent"
        raise refusal(f"{path} has {what} layers, whose state does not page")


def _load(path: Path, hf_config: Any, dtype: torch.dtype) -> Any:
    build: Any = AutoModelForCausalLM
    place: Path | None = path
    more: dict[str, Any] = {}
    if is_gguf(path):  # its weights by name; transformers' own reader of GGUF would unpack them
        build, place = MODEL_FOR_CAUSAL_LM_MAPPING[type(hf_config)], None
        more["state_dict"] = dict(tensors(path, dtype, torch.device("cpu")))
    loaded: Any = build.from_pretrained(
        place,
        config=hf_config,
        dtype=dtype,
        attn_implementation=NAME,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported, and refused below by name
        **more,
    )
    module, report = loaded
    if wrong := _wrong_weights(report):
        raise ModelInvalid(
            f"the checkpoint in {path} {wrong}",
            hint="Copy the directory again: config.json and *.safetensors do not belong together",
        )
    return module


def _wrong_weights(report: Mapping[str, Any]) -> str | None:
    if missing := sorted(report["missing_keys"]):
        return f"lacks {len(missing)} weights, {missing[0]} first"
    if mismatched := sorted(report["mismatched_keys"]):
        name, found, wanted = mismatched[0]
        sizes = f"which is {tuple(found)}, not {tuple(wanted)}"
        return f"has {len(mismatched)} weights of other shapes, {name} first, {sizes}"
    return None
