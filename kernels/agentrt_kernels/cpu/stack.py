"""All layers of a dense decoder in one native call: token ids in, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import KINDS, After, PackedLinear, pack
from agentrt_kernels.cpu.operands import set_rows


@dataclass(frozen=True, slots=True)
class StackShape:
    """What all layers have in common.

    Attributes:
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Heads of keys and values.
        head_dim: Width of one head.
        inner: Width of the gated layer.
        epsilon: Of every norm.
        embedding_scale: Of the embedding.
        residual_scale: Of what a layer adds to the stream.
        logits_scale: Of the logits.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    epsilon: float
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer, before it is packed. Matrices are `[out, in]`, of one dtype.

    Attributes:
        norm: `[hidden]` before attention.
        qkv: `[(H + 2 * K) * D, hidden]`, queries, keys, values.
        qkv_bias: `[(H + 2 * K) * D]` or None.
        query_norm: `[D]` or None.
        key_norm: `[D]` or None.
        out: `[hidden, H * D]`.
        inner_norm: `[hidden]` before the gated layer.
        gate_up: `[2 * inner, hidden]`, gate first.
        down: `[hidden, inner]`.
        score: How the layer scores.
    """

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Tensor
    inner_norm: Tensor
    gate_up: Tensor
    down: Tensor
    score: Score


@dataclass(frozen=True, slots=True)
class StackWeights:
    """A whole decoder.

    Attributes:
        embedding: `[vocabulary, hidden]`.
        layers: From the first to the last.
        norm: `[hidden]` after the last.
        head: `[vocabulary, hidden]`.
        angles: `[positions, D]` fp32, cosines then sines.
    """

    embedding: Tensor
    layers: Sequence[LayerWeights]
    norm: Tensor
    head: Tensor
    angles: Tensor


class Stack:
    """A dense decoder; packs its matrices, so that those it was given may be let go of.

    Args:
        library: The native code.
        shape: What all layers have in common.
        weights: Of fp32 or bf16.
    """

    def __init__(self, library: c.Native, shape: StackShape, weights: StackWeights) -> None:
        self._run = library.stack
        self._kept: list[object] = [weights.embedding, weights.norm, weights.angles]
        self._layers = (c.StackLayer * len(weights.layers))()
        for to, layer in zip(self._layers, weights.layers, strict=True):
            self._take(library, to, layer, shape)
        head = pack(library, weights.head)
        self._kept.append(head)
        self._vocabulary = weights.head.shape[0]
        self._dtype = weights.embedding.dtype
        self._pages_of: int = 0
        call = self._call = c.StackCall()
        call.layers = addressof(self._layers)
        call.layer_count = len(weights.layers)
        call.embedding, call.embedding_stride = weights.embedding.data_ptr(), shape.hidden
        call.norm = weights.norm.data_ptr()
        call.head = head.described(After.STORE, shape.logits_scale)
        call.angles, call.angles_stride = weights.angles.data_ptr(), weights.angles.stride(0)
        call.heads, call.hidden, call.inner = shape.heads, shape.hidden, shape.inner
        call.kind, call.embedding_scale = KINDS[self._dtype], shape.embedding_scale
        self._at = addressof(call)

    def __call__(
        self,
        token_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        rows: PagedRows,
        memory: Tensor,
        wanted: Tensor,
    ) -> Tensor:
        """Logits `[wanted, vocabulary]` fp32.

        Args:
            token_ids: `[T]` int64.
            positions: `[T]` int64.
            slots: `[T]` int64, `page * P + offset`; a negative slot stores nothing.
            rows: Which row sees which pages.
            memory: `[pages, layers, 2, P, K, D]`, dense pages.
            wanted: `[n]` int64, rows whose logits are wanted.
        """
        call = self._call
        if self._pages_of != memory.data_ptr():
            self._take_memory(memory)
        call.token_ids, call.positions = token_ids.data_ptr(), positions.data_ptr()
        call.slots, call.wanted = slots.data_ptr(), wanted.data_ptr()
        call.tokens, call.wanted_tokens = token_ids.shape[0], wanted.shape[0]
        set_rows(call.rows, rows)
        logits = torch.empty((wanted.shape[0], self._vocabulary), dtype=torch.float32)
        call.logits, call.logits_stride = logits.data_ptr(), self._vocabulary
        self._run(self._at)
        return logits

    def _take_memory(self, memory: Tensor) -> None:
        pages = self._call.pages
        pages.memory = memory.data_ptr()
        strides = memory.stride()
        pages.page_stride, pages.value_offset = strides[0], strides[2]
        pages.token_stride, pages.head_stride = strides[3], strides[4]
        pages.page_tokens, pages.kv_heads, pages.head_dim = memory.shape[3:]
        for index, layer in enumerate(self._layers):
            layer.page_offset = index * strides[1]
        self._pages_of = memory.data_ptr()

    def _take(
        self, library: c.Native, to: c.StackLayer, layer: LayerWeights, shape: StackShape
    ) -> None:
        def packed(
            weight: Tensor, bias: Tensor | None = None, *, gated: bool = False
        ) -> PackedLinear:
            made = pack(library, weight, bias, gated=gated)
            self._kept.append(made)
            return made

        def held(tensor: Tensor | None) -> int | None:
            if tensor is None:
                return None
            self._kept.append(tensor)
            return tensor.data_ptr()

        to.qkv = packed(layer.qkv, layer.qkv_bias).described(After.STORE)
        to.out = packed(layer.out).described(After.ADD, shape.residual_scale)
        to.gate_up = packed(layer.gate_up, gated=True).described(After.GATE)
        to.down = packed(layer.down).described(After.ADD, shape.residual_scale)
        to.norm, to.inner_norm = held(layer.norm), held(layer.inner_norm)
        to.query_norm, to.key_norm = held(layer.query_norm), held(layer.key_norm)
        to.epsilon = shape.epsilon
        score = layer.score
        sinks = None if score.sinks is None else score.sinks.float().contiguous()
        to.how = c.Score(score.scaling, score.softcap or 0.0, score.window or 0, held(sinks))
