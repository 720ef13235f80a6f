"""Any other causal language model: the modelling code of transformers on the engine's attention.

transformers builds the model on the meta device and streams the safetensors shards into it, with
the conversions that its architecture needs. Importing it takes three seconds, hence only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM

from agentrt.base.errors import ModelInvalid
from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.ops.attention import NAME, attend

AttentionInterface.register(NAME, attend)  # type: ignore[no-untyped-call, unused-ignore]


class HfNetwork:
    """A transformers model, called with packed batches.

    Attributes:
        module: The model, in evaluation mode.
        config: Config of its text part.
        parameters: Number of parameters.
    """

    is_single_call = False

    def __init__(self, module: Any) -> None:
        self.module = module.eval()
        self.config: Any = module.config.get_text_config()
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
        hf_config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        if random_seed is None:
            return HfNetwork(_load(path, hf_config, dtype).to(device))
        torch.manual_seed(random_seed)
        build: Any = AutoModelForCausalLM.from_config
        return HfNetwork(build(hf_config, dtype=dtype, attn_implementation=NAME).to(device))
    except ModelInvalid:
        raise
    except Exception as error:  # any error of transformers here is about the model
        lines = str(error).strip().splitlines() or [""]
        raise ModelInvalid(
            f"{path} cannot be loaded: {type(error).__name__}: {lines[0]}",
            hint="Give a directory with a causal language model that transformers knows",
        ) from error
    finally:
        hf_logging.set_verbosity(verbosity)


def _load(path: Path, hf_config: Any, dtype: torch.dtype) -> Any:
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        path,
        config=hf_config,
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
