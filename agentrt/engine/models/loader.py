"""Loading a Hugging Face checkpoint directory.

Decoders of known shape are computed by the engine itself, everything else through transformers.
What a loader would have to run or unpickle is refused before it is asked.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.models.load_plan import LoadPlan, plan_load
from agentrt.engine.models.native import self_check
from agentrt.engine.models.native.build import (
    KnownDecoder,
    build_decoder,
    random_weights,
    read_weights,
)
from agentrt.engine.models.native.families import FAMILIES
from agentrt.engine.models.native.model_config import Declined
from agentrt.engine.models.native.self_check import SelfCheckResult
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.report import ModelReport, report_of
from agentrt_kernels.contract import Kernels

_log = logging.getLogger(__name__)


class Network(Protocol):
    """What computes logits.

    Attributes:
        parameters: How many it has.
        is_one_call: Whether it asks torch for nothing and attends by itself.
    """

    parameters: int
    is_one_call: bool

    def bind(self, kv: KvCache, most_rows: int) -> None:
        """Get ready for this KV memory and for forwards of up to `most_rows` tokens."""

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the wanted rows."""
        ...


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
        kernels: What it runs on.
        report: Which path it takes, and why.
    """

    decoder: Network
    heads: int
    layout: KvLayout
    window_tokens: int
    logits_size: int
    name: str
    parameters: int
    kernels: Kernels
    report: ModelReport


def load_model(config: EngineConfig) -> LoadedModel:
    """The model of `config.model_path`.

    Raises:
        ModelInvalid: The directory lacks something, or holds what we refuse to load.
        EngineUnavailable: The device is not there, or cannot run the kernels asked for.
    """
    plan = plan_load(config)
    shape = plan.shape
    if isinstance(shape, DecoderShape):
        decoder, verdict = _here(plan, shape)
        plan = dataclasses.replace(plan, verdict=verdict)
        if verdict.state != "failed":
            return _loaded(plan, decoder, shape)
        del decoder
        plan = dataclasses.replace(plan, shape=Declined(verdict.reason))
    assert isinstance(plan.shape, Declined)
    loud = logging.WARNING if plan.facts.get("model_type") in FAMILIES else logging.INFO
    _log.log(loud, "%s goes through transformers: %s", config.model_path, plan.shape.reason)
    return _through_transformers(plan)


def _here(plan: LoadPlan, shape: DecoderShape) -> tuple[KnownDecoder, SelfCheckResult]:
    """The engine's own decoder, and whether it computes what transformers computes."""
    config, dtype, device, kernels = plan.config, plan.dtype, plan.device, plan.kernels.kernels
    asked = plan.verdict.state == "unknown"
    theirs = self_check.reference_logits(config.model_path, dtype, device) if asked else None
    if config.random_weights:
        weights = random_weights(shape, config.seed, dtype, device)
    else:
        weights = read_weights(shape, config.model_path, dtype, device)
    decoder = build_decoder(shape, weights, kernels, plan.door)
    if theirs is None:
        return decoder, plan.verdict
    mine = self_check.fast_logits(decoder, _layout(plan, shape), shape.heads, shape.vocabulary)
    verdict = self_check.judge(mine, theirs, dtype)
    self_check.keep(plan.key, verdict)
    return decoder, verdict


def _through_transformers(plan: LoadPlan) -> LoadedModel:
    from agentrt.engine.models.hf_model import (
        load_hf,  # takes three seconds, and mostly is not needed
    )

    config = plan.config
    if "auto_map" in plan.facts:
        raise ModelInvalid(
            f"{config.model_path / 'config.json'} asks to run code of its own (auto_map)",
            hint="Use a checkpoint whose architecture transformers has built in",
        )
    decoder = load_hf(
        config.model_path,
        plan.dtype,
        plan.device,
        random_seed=config.seed if config.random_weights else None,
    )
    return _loaded(plan, decoder, _Sizes.of(decoder.config, config.model_path))


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


def _layout(plan: LoadPlan, sizes: DecoderShape | _Sizes) -> KvLayout:
    return KvLayout(
        layers=sizes.layers,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        page_tokens=plan.config.page_tokens,
        dtype=plan.dtype,
        device=plan.device,
    )


def _loaded(plan: LoadPlan, decoder: Network, sizes: DecoderShape | _Sizes) -> LoadedModel:
    report = report_of(plan)
    _log.info("%s: %s", plan.config.model_path, report)
    return LoadedModel(
        decoder=decoder,
        heads=sizes.heads,
        layout=_layout(plan, sizes),
        window_tokens=int(plan.facts.get("max_position_embeddings") or 0),
        logits_size=sizes.vocabulary,
        name=plan.config.model_path.resolve().name,
        parameters=decoder.parameters,
        kernels=plan.kernels.kernels,
        report=report,
    )
