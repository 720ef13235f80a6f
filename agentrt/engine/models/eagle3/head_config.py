"""The `config.json` of an EAGLE-3 head: which states it takes, and the shape of its layer.

Two settings name the layers, and count differently. `eagle_config` of SpecForge and SGLang names
those behind which a state is taken; the setting beside all others, of vLLM's speculators, those
before which. Without either it is the second layer, that in the middle, and the last but two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.native.model_config import Declined, shape_of
from agentrt.engine.models.native.shape import DecoderShape

STATES = 3
"""Layers of the target whose states a head takes."""


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """The target of a head, and the shape of its layer.

    Attributes:
        shape: Shape of its layer; the vocabulary is that which it drafts.
        vocabulary: Vocabulary of its target.
        target_hidden: Width of its target's stream.
        capture_layers: Layers of the target before which the stream is taken, by index from 0 on.
        norm_before_residual: Whether its own stream begins with the normed state.
    """

    shape: DecoderShape
    vocabulary: int
    target_hidden: int
    capture_layers: tuple[int, ...]
    norm_before_residual: bool


def head_config(path: Path, config: Mapping[str, Any], target: DecoderShape) -> HeadConfig:
    """The config of a head for this target.

    Args:
        path: Directory of the head, for errors.
        config: Content of its `config.json`.
        target: Shape of the target.

    Raises:
        ModelInvalid: The head is made for another target, or computes what is not computed here.
    """
    drafted = config.get("draft_vocab_size") or config.get("vocab_size")
    one_layer = {
        **config,
        "model_type": "llama",
        "vocab_size": drafted,
        "num_hidden_layers": config.get("num_hidden_layers", 1),
        "tie_word_embeddings": False,
    }
    shape = shape_of(one_layer)
    if isinstance(shape, Declined):
        raise _refused(path, shape.reason)
    if shape.layers != 1:
        raise _refused(path, f"it has {shape.layers} layers, and only one is computed here")
    vocabulary = config.get("vocab_size")
    if vocabulary != target.vocabulary:
        raise _misfit(path, f"a vocabulary of {vocabulary} tokens", f"{target.vocabulary}")
    hidden = config.get("target_hidden_size") or shape.hidden
    if hidden != target.hidden:
        raise _misfit(path, f"states of {hidden} values", f"states of {target.hidden}")
    return HeadConfig(
        shape=shape,
        vocabulary=target.vocabulary,
        target_hidden=target.hidden,
        capture_layers=_capture_layers(path, config, target.layers),
        norm_before_residual=bool(config.get("norm_before_residual")),
    )


def _capture_layers(path: Path, config: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    nested = config.get("eagle_config")
    nested = nested if isinstance(nested, Mapping) else {}
    if nested.get("use_aux_hidden_state") is False:
        raise _refused(path, "it takes the last state of its target only (use_aux_hidden_state)")
    behind = nested.get("eagle_aux_hidden_state_layer_ids")
    before = config.get("eagle_aux_hidden_state_layer_ids")
    if behind:
        named = [at + 1 if isinstance(at, int) else at for at in behind]
    else:
        named = list(before or (2, layers // 2, layers - STATES))
    fits = all(isinstance(at, int) and 0 <= at < layers for at in named)
    if len(named) != STATES or not fits:
        raise _refused(
            path, f"it takes the states before layers {named} of a target that has {layers}"
        )
    return tuple(named)


def _refused(path: Path, reason: str) -> ModelInvalid:
    return ModelInvalid(
        f"the EAGLE-3 head {path} cannot be computed here: {reason}",
        hint="Give --draft-model a head as SpecForge publishes it, or a smaller model",
    )


def _misfit(path: Path, own: str, wanted: str) -> ModelInvalid:
    return ModelInvalid(
        f"the EAGLE-3 head {path} is made for another model: for {own}, and this one has {wanted}",
        hint="Give --draft-model the head that was trained for --model",
    )
