"""Description of how a transformers model attends, taken from one short forward.

Its modules run with a function that records each call instead of the engine's attention, and with
masks that are their own description. What the engine's attention would not compute is refused with
the reason, before it could compute something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache

from agentrt.base.errors import ModelInvalid

NAME = "agentrt_description"
_TOKENS = 3
_PROBED_CONTEXT = 1 << 16
"""Context over which a mask without a window is read: longer than windows in use."""

_OWN_MASK = "masks in its own way, which is neither causal nor a sliding window"


@dataclass(frozen=True, slots=True)
class MaskShape:
    """Tokens that a mask leaves visible to a row.

    Attributes:
        window: Tokens that a row sees, itself among them; None for all before it.
        is_plain: Whether it is nothing but causal, with or without a window.
    """

    window: int | None
    is_plain: bool


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One call of the attention function.

    Attributes:
        layer: Index that the calling module has; None if it has none.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of a query and a key.
        value_dim: Width of a value.
        window: Window that the call names; None sees all.
        mask: Mask that the call brings; None if the model made none, a tensor if it made its own.
    """

    layer: int | None
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None
    mask: MaskShape | Tensor | None


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Attention of all layers.

    Attributes:
        layers: Number of layers.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int


_calls: ContextVar[list[AttentionCall]] = ContextVar("agentrt_attention_calls")


@contextmanager
def recorded_calls() -> Iterator[list[AttentionCall]]:
    """Calls of the attention function within this block."""
    calls: list[AttentionCall] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def describe_attention(module: Any) -> AttentionShape:
    """Describe a model whose attention is set to `NAME`.

    Raises:
        ModelInvalid: The engine's attention does not compute what its layers compute.
    """
    ids = torch.zeros((1, _TOKENS), dtype=torch.int64, device=module.device)
    name = type(module).__name__
    try:
        with torch.inference_mode(), recorded_calls() as calls:
            module(input_ids=ids, use_cache=False)
    except Exception as error:  # any error of its code here is about the model
        if MaskShape.__name__ in str(error):  # it computes with its mask
            raise refusal(f"{name} {_OWN_MASK}") from error
        raise refusal(f"{name} does not run on another attention: {first_line(error)}") from error
    cache = DynamicCache(config=module.config.get_text_config())
    kept = [getattr(layer, "sliding_window", None) for layer in cache.layers]
    reason = next(_objections(calls, kept), None)
    if reason is not None:
        raise refusal(f"{name} {reason}")
    first = calls[0]
    return AttentionShape(len(calls), first.heads, first.kv_heads, first.head_dim)


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return next(iter(str(error).strip().splitlines()), "no message")


def refusal(what: str) -> ModelInvalid:
    """The error of a model that does not run on the engine's attention."""
    return ModelInvalid(what, hint="Serve this model elsewhere and pass --engine URL")


def _objections(calls: list[AttentionCall], kept: list[int | None]) -> Iterator[str]:
    """Why the engine does not attend like the model.

    Args:
        calls: One a layer.
        kept: Tokens that the cache of `generate()` keeps in each layer; None keeps all.
    """
    if not calls:
        yield "does not attend through the function that the engine replaces"
    layers = [call.layer for call in calls]
    if layers != list(range(len(calls))):
        yield f"attends in layers {str(layers)[:40]}, not once in each"
    sizes = {(call.heads, call.kv_heads, call.head_dim) for call in calls}
    if len(sizes) > 1:
        yield "has layers whose heads differ in number or width, which do not share pages"
    for call in calls:
        if call.value_dim != call.head_dim:
            yield f"has values of width {call.value_dim} beside keys of width {call.head_dim}"
        if call.heads % call.kv_heads:
            yield f"shares {call.kv_heads} keys among {call.heads} heads"
        mask = call.mask
        if isinstance(mask, Tensor) or (mask is not None and not mask.is_plain):
            yield _OWN_MASK
        elif mask is not None and mask.window != call.window:
            yield f"masks with a window of {mask.window} and attends with one of {call.window}"
    for call, tokens in zip(calls, kept, strict=False):
        if tokens is not None and call.window is None:
            yield f"keeps {tokens} tokens in the cache of a layer that attends to all"


def _record(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: MaskShape | Tensor | None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls; zeros of the right shape go on."""
    _calls.get().append(
        AttentionCall(
            layer=getattr(module, "layer_idx", None),
            heads=query.shape[1],
            kv_heads=key.shape[1],
            head_dim=key.shape[-1],
            value_dim=value.shape[-1],
            window=sliding_window or None,
            mask=attention_mask,
        )
    )
    shape = (query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
    return query.new_zeros(shape), None


def _describe_mask(
    *, mask_function: Callable[..., Any], local_size: int | None = None, **_: Any
) -> MaskShape:
    """The function that transformers calls for a mask."""
    context = 3 * local_size + 2 if local_size else _PROBED_CONTEXT
    try:
        row, tokens = torch.tensor(context - 1), torch.arange(context + _TOKENS)
        batch = torch.tensor(0)
        visible = mask_function(batch, batch, row, tokens).expand(tokens.shape)
    except (IndexError, RuntimeError):  # it reads something that only a batch has
        return MaskShape(local_size, is_plain=False)
    expected = tokens < context
    if local_size is not None:
        expected &= tokens >= context - local_size
    return MaskShape(local_size, is_plain=bool((visible == expected).all()))


AttentionInterface.register(NAME, _record)  # type: ignore[no-untyped-call, unused-ignore]
AttentionMaskInterface.register(NAME, _describe_mask)  # type: ignore[no-untyped-call, unused-ignore]
