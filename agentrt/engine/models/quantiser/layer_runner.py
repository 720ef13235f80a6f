"""Runs a decoder layer by layer over whole sequences, so that memory holds one layer at a time.

A layer is run as a decoder of one layer, whose embedding are the hidden states before it and whose
head passes on those behind it: what calibration sees is what the engine computes.

Letters of the shapes: T tokens of all sequences, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch, pack
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout
from agentrt.engine.models.load_plan import LoadPlan
from agentrt.engine.models.native.layer import embedding_scale
from agentrt.engine.models.native.layer_weights import layer_weights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantiser.input_statistics import InputStatistics
from agentrt.engine.ops.attention import PagedAttention, attending_with
from agentrt.engine.ops.linear import DenseLinear, Linear, LinearBackend
from agentrt_kernels.quantised_weight import QuantisedWeight

_BATCH_TOKENS = 2048
_BATCH_LOGITS = 1 << 25
"""Logits of a batch, of which two are held at once."""

LAYER = "model.layers.0."
"""Prefix of a layer's weights where it is run alone."""


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The residual stream of some sequences before a layer.

    Attributes:
        values: `[T, hidden]`, one sequence behind the other.
        lengths: Tokens of each sequence.
    """

    values: Tensor
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerStatistics:
    """Statistics of the inputs of a layer's matrices.

    Attributes:
        qkv: Inputs of the query, key and value projections.
        out: Inputs of attention's output projection.
        gate_up: Inputs of the gate and up projections.
        down: Inputs of the down projection.
    """

    qkv: InputStatistics
    out: InputStatistics
    gate_up: InputStatistics
    down: InputStatistics


@dataclass(frozen=True, slots=True)
class OutputHead:
    """The final norm and the head of a decoder.

    Attributes:
        norm: `[hidden]`, weight of the final norm as a checkpoint has it.
        head: `[V, hidden]`.
    """

    norm: Tensor
    head: Tensor


class LayerRunner:
    """Runs the layers of one decoder.

    Args:
        plan: Plan of a model that the engine computes itself.
        shape: Shape of its decoder.
    """

    def __init__(self, plan: LoadPlan, shape: DecoderShape) -> None:
        self._plan = plan
        self._shape = shape

    @property
    def max_sequence_tokens(self) -> int:
        """Longest sequence that has its usual angles in all positions."""
        return min(self._shape.positions, self._shape.rope_threshold or self._shape.positions)

    def embed(self, embedding: Tensor, sequences: Sequence[Sequence[int]]) -> HiddenStates:
        """The states before the first layer.

        Args:
            embedding: `[V, hidden]`.
            sequences: Token ids.
        """
        ids = torch.tensor([token for one in sequences for token in one])
        values = embedding[ids].to(self._plan.dtype)
        scale = embedding_scale(self._shape, self._plan.dtype) / self._shape.residual_scale
        return HiddenStates(values * scale, tuple(len(one) for one in sequences))

    def run(
        self,
        layer: int,
        weights: Mapping[str, Tensor],
        states: HiddenStates,
        statistics: LayerStatistics | None = None,
    ) -> HiddenStates:
        """The states behind a layer.

        Args:
            layer: Number of the layer.
            weights: The layer's weights, by names that begin with `LAYER`.
            states: States before it.
            statistics: Counts the inputs of its matrices.
        """
        network = self._network(layer, dict(weights), states, None, statistics)
        out = torch.empty_like(states.values)
        start = 0
        for batch in self._batches(network, states.lengths, _BATCH_TOKENS):
            made = _forward(network, batch)
            out[start : start + made.shape[0]] = made
            start += made.shape[0]
        return HiddenStates(out, states.lengths)

    def logits(
        self, layer: int, weights: Mapping[str, Tensor], head: OutputHead, states: HiddenStates
    ) -> Iterator[Tensor]:
        """Logits `[tokens, V]` of one batch after the other, from the states before the last layer.

        Args:
            layer: Number of the last layer.
            weights: The layer's weights, by names that begin with `LAYER`.
            head: Norm and head behind it.
            states: States before it.
        """
        tokens = min(_BATCH_TOKENS, _BATCH_LOGITS // self._shape.vocabulary)
        network = self._network(layer, dict(weights), states, head, None)
        for batch in self._batches(network, states.lengths, tokens):
            yield _forward(network, batch).float()

    def _network(
        self,
        layer: int,
        weights: dict[str, Tensor | PackedWeight],
        states: HiddenStates,
        head: OutputHead | None,
        statistics: LayerStatistics | None,
    ) -> TorchNetwork:
        plan, shape = self._plan, self._shape
        kernels = plan.kernels.kernels
        alone = replace(
            shape,
            layers=1,
            ropes=(shape.ropes[layer],),
            windows=(shape.windows[layer],),
            embedding_scale=shape.residual_scale,  # the states have theirs
            rounds_embedding_scale=False,
            logits_scale=1.0 if head is None else shape.logits_scale,
            logits_softcap=None if head is None else shape.logits_softcap,
        )
        weights["model.embed_tokens.weight"] = states.values
        if head is not None:
            weights["model.norm.weight"] = head.norm.to(plan.dtype)
            weights["lm_head.weight"] = head.head.to(plan.dtype)
        backend = _CountingBackend(plan, head is None, statistics)
        return TorchNetwork(alone, layer_weights(alone, weights, backend), kernels)

    def _batches(
        self, network: TorchNetwork, lengths: Sequence[int], tokens: int
    ) -> Iterator[tuple[PagedAttention, ForwardBatch]]:
        """Batches of whole sequences, with a row of logits for each token."""
        plan, shape = self._plan, self._shape
        groups = grouped(lengths, tokens)
        page_tokens = plan.config.page_tokens
        pages = -(-max(lengths) // page_tokens)
        slots = max(len(group) for group in groups)
        layout = KvLayout(1, shape.kv_heads, shape.head_dim, page_tokens, plan.dtype, plan.device)
        kv = KvCache(layout, slots * pages)
        tables = BlockTables(slots, pages, kv)
        for slot in range(slots):
            own = range(slot * pages, (slot + 1) * pages)
            tables.write(slot, 0, list(own))  # type: ignore[arg-type]  # page numbers
        network.bind(kv, max(sum(group) for group in groups))
        attention = PagedAttention(kv, tables, heads=shape.heads, tile_tokens=max(lengths))
        first = 0
        for group in groups:
            starts = accumulate(group, initial=first)
            slices = [
                SequenceSlice(slot, range(start, start + length), 0, wants_logits=True)
                for slot, (start, length) in enumerate(zip(starts, group, strict=False))
            ]
            batch = pack(slices, kv, tables)
            batch.logit_rows = torch.arange(sum(group))
            first += sum(group)
            yield attention, batch


def grouped(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Lengths in groups of neighbours with a sum of at most `most`, each with one length at least.

    Example:
        >>> grouped([3, 3, 5, 9], 8)
        [[3, 3], [5], [9]]
    """
    groups: list[list[int]] = []
    for length in lengths:
        if groups and sum(groups[-1]) + length <= most:
            groups[-1].append(length)
        else:
            groups.append([length])
    return groups


def _forward(network: TorchNetwork, step: tuple[PagedAttention, ForwardBatch]) -> Tensor:
    attention, batch = step
    attention.begin_batch(batch)
    with torch.inference_mode(), attending_with(attention):
        return network(batch)


class _PassingHead:
    """A head that passes on the states."""

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        return x


class _CountedLinear:
    """A matrix that counts its inputs.

    Args:
        matrix: The matrix.
        statistics: Counts its inputs.
    """

    def __init__(self, matrix: Linear, statistics: InputStatistics) -> None:
        self._matrix = matrix
        self._statistics = statistics

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        self._statistics.add(x)
        return self._matrix.apply(x, out)


class _CountingBackend(LinearBackend):
    """Makes the plain matrices of a network of one layer: its head, and then the layer's four."""

    def __init__(self, plan: LoadPlan, passes: bool, statistics: LayerStatistics | None) -> None:
        super().__init__(plan.dtype, plan.device, plan.kernels.kernels)
        self._passes = passes
        counted: list[InputStatistics | None] = [None] * 4
        if statistics is not None:
            counted = [statistics.qkv, statistics.out, statistics.gate_up, statistics.down]
        self._statistics = iter([None, *counted])

    def linear(self, weight: Tensor | QuantisedWeight, bias: Tensor | None = None) -> Linear:
        """See `LinearBackend.linear`."""
        assert isinstance(weight, Tensor)
        statistics = next(self._statistics)
        if self._passes:
            self._passes = False
            return _PassingHead()
        matrix = DenseLinear(weight, bias)
        return matrix if statistics is None else _CountedLinear(matrix, statistics)
