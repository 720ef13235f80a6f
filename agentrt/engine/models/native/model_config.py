"""From a `config.json` to the shape of a decoder, or why it is none that is known here.

What is not plainly of a known family, by its config and (in `weights`) by the names of its weights,
is left to transformers: a wrong guess would be wrong text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agentrt.engine.models.native.families import FAMILIES, Family
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape, Rope

Facts = dict[str, Any]

_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)
_SAID = ("rms_norm_eps", "tie_word_embeddings")
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True, slots=True)
class Declined:
    """A model that is left to transformers.

    Attributes:
        reason: Why.
    """

    reason: str


def shape_of(facts: Facts) -> DecoderShape | Declined:
    """The shape that a `config.json` describes, or why it is left to transformers."""
    kind = facts.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        return Declined(f"{kind} is no architecture that is computed here")
    if family.theta and facts.get("rope_theta") is None:
        facts = {**facts, "rope_theta": family.theta}
    try:
        reason = next(_objections(family, facts), None)
        return Declined(reason) if reason else _shape(family, facts)
    except (TypeError, ValueError) as error:
        return Declined(f"its config cannot be read: {error}")


def _objections(family: Family, facts: Facts) -> Iterator[str]:
    missing = [name for name in (*_SIZES, *_expert_sizes(family)) if not _is_size(facts, name)]
    missing += [name for name in (*_SAID, *family.needs) if facts.get(name) is None]
    if missing and (missing != ["sliding_window"] or "sliding_window" not in facts):
        yield f"its config does not say {missing[0]}"
    if facts.get("hidden_act") != "silu":
        yield f"its activation is {facts.get('hidden_act')}"
    for name in family.absent:
        if facts.get(name):
            yield f"its config sets {name}"
    for name in ("attention_bias", "mlp_bias"):
        if facts.get(name) and name not in (family.qkv_bias, family.mlp_bias):
            yield f"its config sets {name}"
    odd = set(facts.get("layer_types") or ()) - {"full_attention", "sliding_attention"}
    if odd or (family.window != "types" and "sliding_attention" in _types(facts)):
        yield f"it has layers of types {sorted(set(_types(facts)))}"
    if family.window == "types":
        yield from _objections_to_windows(facts)
    if facts["num_attention_heads"] % facts["num_key_value_heads"]:
        yield "its heads do not share keys evenly"
    yield from _objections_to_positions(facts)


def _objections_to_positions(facts: Facts) -> Iterator[str]:
    kind, head_dim = _told(facts)["kind"], _head_dim(facts)
    if kind not in ("default", "linear", "llama3"):
        yield f"its positions are of type {kind}"
        return
    rope = _rope(facts, head_dim)
    if rope is None:
        yield "its config does not say how positions turn"
    elif head_dim % 2 or rope.width % 2:
        yield "its heads do not turn in halves"


def _objections_to_windows(facts: Facts) -> Iterator[str]:
    types = _types(facts)
    if facts.get("use_sliding_window") and not types and facts.get("max_window_layers") is None:
        yield "its config does not say which layers have a window"
    if "sliding_attention" not in types:
        return
    if len(types) != facts["num_hidden_layers"] or not facts.get("sliding_window"):
        yield "its config does not say how wide the windows of its layers are"


def _shape(family: Family, facts: Facts) -> DecoderShape:
    layers, heads, hidden = (
        int(facts[name]) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    head_dim = _head_dim(facts)
    rope = _rope(facts, head_dim)
    assert rope is not None

    def scale(name: str) -> float:
        return float(facts[name]) if family.scales else 1.0

    return DecoderShape(
        hidden=hidden,
        inner=int(facts["intermediate_size"]),
        layers=layers,
        heads=heads,
        kv_heads=int(facts["num_key_value_heads"]),
        head_dim=head_dim,
        vocabulary=int(facts["vocab_size"]),
        positions=int(facts["max_position_embeddings"]),
        epsilon=float(facts["rms_norm_eps"]),
        rope=rope,
        windows=_windows(family, facts, layers),
        scaling=scale("attention_multiplier") if family.scales else head_dim**-0.5,
        qkv_bias=_says(facts, family.qkv_bias),
        out_bias=_says(facts, family.out_bias),
        mlp_bias=_says(facts, family.mlp_bias),
        head_norms=family.head_norms,
        experts=_experts(family, facts, layers),
        tied=bool(facts["tie_word_embeddings"]),
        embedding_scale=scale("embedding_multiplier"),
        residual_scale=scale("residual_multiplier"),
        logits_scale=1.0 / scale("logits_scaling"),
        names=family.names,
        initial_deviation=float(facts.get("initializer_range") or 0.02),
    )


def _windows(family: Family, facts: Facts, layers: int) -> tuple[int | None, ...]:
    window = facts.get("sliding_window") or None
    if family.window == "none" or (family.window != "all" and not facts.get("use_sliding_window")):
        window = None
    if window is None or family.window != "types":
        return (window,) * layers
    first = facts.get("max_window_layers", 0)
    types = _types(facts) or ["sliding_attention" if at >= first else "" for at in range(layers)]
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _experts(family: Family, facts: Facts, layers: int) -> ExpertShape | None:
    if not family.experts:
        return None
    step = int(facts.get("decoder_sparse_step") or 1)
    plain = set(facts.get("mlp_only_layers") or ())
    return ExpertShape(
        count=int(facts.get("num_local_experts") or facts["num_experts"]),
        chosen=int(facts["num_experts_per_tok"]),
        inner=int(facts[family.experts]),
        sums_to_one=_says(facts, family.sums_to_one),
        rounds=family.rounds,
        shared_inner=int(facts[family.shared]) if family.shared else 0,
        layers=frozenset(at for at in range(layers) if (at + 1) % step == 0 and at not in plain),
    )


def _expert_sizes(family: Family) -> tuple[str, ...]:
    if not family.experts:
        return ()
    sizes = ("num_experts", "num_experts_per_tok", family.experts, family.shared)
    return tuple(name for name in sizes if name)


def _is_size(facts: Facts, name: str) -> bool:
    value = facts.get(name)
    if name == "num_experts" and value is None:
        value = facts.get("num_local_experts")
    return _are_positive([value])


def _says(facts: Facts, what: bool | str) -> bool:
    return bool(facts.get(what)) if isinstance(what, str) else what


def _types(facts: Facts) -> list[str]:
    return list(facts.get("layer_types") or ())


def _head_dim(facts: Facts) -> int:
    return int(facts.get("head_dim") or facts["hidden_size"] // facts["num_attention_heads"])


def _told(facts: Facts) -> Facts:
    """What a config says of its positions, in the words of old and new versions."""
    told = {**(facts.get("rope_scaling") or {}), **(facts.get("rope_parameters") or {})}
    kind = told.get("rope_type") or told.get("type") or "default"
    part = told.get("partial_rotary_factor") or facts.get("partial_rotary_factor") or 1.0
    theta = told.get("rope_theta") or facts.get("rope_theta")
    return {**told, "kind": kind, "partial_rotary_factor": part, "rope_theta": theta}


def _rope(facts: Facts, head_dim: int) -> Rope | None:
    told = _told(facts)
    if not _are_positive([told["rope_theta"], told["partial_rotary_factor"]]):
        return None
    theta, width = float(told["rope_theta"]), int(head_dim * told["partial_rotary_factor"])
    if told["kind"] == "linear":
        ok = _are_positive([told.get("factor")])
        return Rope(theta, width, stretch=float(told["factor"])) if ok else None
    if told["kind"] == "default":
        return Rope(theta, width)
    if not _are_positive([told.get(name) for name in _LLAMA3]):
        return None
    factor, low, high, length = (float(told[name]) for name in _LLAMA3)
    return Rope(theta, width, llama3=(factor, low, high, length))


def _are_positive(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and value > 0 for value in values)
