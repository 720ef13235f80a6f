"""CUDA graphs of short steps: one launch instead of hundreds of kernel launches.

A graph is captured for each tier, that is a number of sequences and the most rows that one of them
has: one while all decode, more after a run forced by a grammar or for the tail of a prompt. It is
captured with a shared prefix and without. It reads everything that varies from buffers of constant
address and size: no length is passed from the host, and the bounds that shape grids are those of
the longest context. Programs beyond a sequence's own length end at once. A batch is padded to its
tier: with one-token sequences that store nothing and attend to any page, then with rows that belong
to no sequence. Sampling stays outside, so that masks may come late. Steps that compute longer
chunks of a prompt are launched kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from agentrt.engine.batch.batch import BatchPacker, ForwardBatch
from agentrt.engine.batch.input_packing import InputFields, SequenceSlice, buffer_words
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache
from agentrt_kernels.contract import PagedRows, SharedPrefix

_WARM_UP_RUNS = 2
"""Runs before a capture, in which kernels are compiled and libraries set up."""

WIDE_ROWS = (2, 4, 8)
"""Most rows of a sequence, beyond one, for which graphs are captured."""

_MAX_WIDE_TOKENS = 64
"""Rows of all sequences in such a tier; with more, launches are a small part of a step."""


@dataclass(frozen=True, slots=True)
class GraphTier:
    """Size of the batches for which one graph is captured.

    Attributes:
        sequences: Number of sequences.
        rows: Most rows of one sequence.
    """

    sequences: int
    rows: int

    @property
    def tokens(self) -> int:
        """Rows of all sequences."""
        return self.sequences * self.rows

    def fits(self, slices: Sequence[SequenceSlice], tokens: int, rows: int) -> bool:
        """Whether `slices` fit, which have `tokens` rows in all and at most `rows` each."""
        padding = self.sequences - len(slices)
        return padding >= 0 and self.rows >= rows and self.tokens >= tokens + padding


class RecordedGraph(Protocol):
    """A captured computation.

    Attributes:
        output: Filled by each replay.
    """

    output: Tensor

    def replay(self) -> None:
        """Launch it again, on the current content of its buffers."""
        ...


class GraphRecorder(Protocol):
    """Captures computations in one memory pool, the largest first."""

    def record(self, run: Callable[[], Tensor]) -> RecordedGraph:
        """Capture what `run` launches."""
        ...


class CudaGraphRecorder:
    """Captures CUDA graphs."""

    def __init__(self) -> None:
        self._pool: Any = torch.cuda.graph_pool_handle()

    def record(self, run: Callable[[], Tensor]) -> RecordedGraph:
        """Capture what `run` launches, after some runs that are not captured."""
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_RUNS):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = run()
        return CudaGraph(graph, output)


@dataclass(slots=True, eq=False)
class CudaGraph:
    """One captured graph."""

    graph: Any
    output: Tensor

    def replay(self) -> None:
        """Launch it."""
        self.graph.replay()


def batch_sizes(max_sequences: int) -> tuple[int, ...]:
    """Batch sizes to capture: 1, 2, 4, 8, then every eighth, and the largest."""
    sizes = {1, 2, 4, *range(8, max_sequences, 8), max_sequences}
    return tuple(sorted(size for size in sizes if size <= max_sequences))


def wide_tiers(max_sequences: int, max_tokens: int) -> tuple[GraphTier, ...]:
    """Tiers of several rows per sequence: sizes that double, and the largest that pays."""
    limit = min(_MAX_WIDE_TOKENS, max_tokens)
    sizes = [
        size
        for size in batch_sizes(max_sequences)
        if size.bit_count() == 1 or size == max_sequences
    ]
    found = [GraphTier(size, rows) for size in sizes for rows in WIDE_ROWS]
    return tuple(tier for tier in found if tier.tokens <= limit)


class StaticBatch:
    """Buffers that a captured graph reads, for the batches of one tier.

    Attributes:
        batch: Batch made of the buffers.
    """

    def __init__(self, kv: KvCache, tables: BlockTables, tier: GraphTier, *, shared: bool) -> None:
        device = kv.layout.device
        sequences = tier.sequences
        flat = torch.zeros(buffer_words(tier.tokens, sequences), dtype=torch.int64, device=device)
        fields = InputFields.split(flat, tier.tokens, sequences)
        pages = tables.device_table.shape[1]

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        groups = max(1, sequences // 2)
        prefix = SharedPrefix(
            member_start=numbers(groups + 1),
            members=numbers(sequences),
            tokens=numbers(groups),
            block_table=numbers(groups, pages),
            most_members=sequences,
        )
        fields.kv_tokens.fill_(1)
        fields.query_start.copy_(torch.arange(sequences + 1))
        fields.logit_rows.copy_(torch.arange(sequences))
        fields.slot_mapping.fill_(-1)
        self.batch = ForwardBatch(
            fields=fields,
            logit_rows=fields.logit_rows,
            paged=PagedRows(
                query_start=fields.query_start,
                kv_tokens=fields.kv_tokens,
                block_table=numbers(sequences, pages),
                most_query_tokens=tier.rows,
                most_kv_tokens=pages * kv.layout.page_tokens,
                prefix=prefix if shared else None,
            ),
            _slices=(),
            _kv=kv,
        )

    def copy_inputs(self, batch: ForwardBatch) -> None:
        """Copy the inputs of a packed batch of the same size."""
        self.batch.fields.flat.copy_(batch.fields.flat)
        table = batch.paged.block_table
        self.batch.paged.block_table[:, : table.shape[1]].copy_(table)
        own, given = self.batch.paged.prefix, batch.paged.prefix
        if own is None or given is None:
            return
        groups, pages = given.block_table.shape
        own.member_start[: groups + 1].copy_(given.member_start)
        own.member_start[groups + 1 :].copy_(given.member_start[-1:])  # the others are empty
        own.members[: given.members.shape[0]].copy_(given.members)
        own.tokens[:groups].copy_(given.tokens)
        own.tokens[groups:].zero_()
        own.block_table[:groups, :pages].copy_(given.block_table)


class CudaGraphs:
    """Captured steps of one model.

    Args:
        network: Computes the logits; reads nothing that varies from the host.
        kv: The KV cache.
        tables: Block tables.
        packer: Packs the batches.
        recorder: Captures the graphs.
        max_sequences: Largest batch.

    Attributes:
        replays: Steps launched as graphs.
        captured: Graphs by tier and by whether the rows share a prefix, each with its inputs.
    """

    def __init__(
        self,
        network: Callable[[ForwardBatch], Tensor],
        kv: KvCache,
        tables: BlockTables,
        packer: BatchPacker,
        recorder: GraphRecorder,
        max_sequences: int,
    ) -> None:
        self._packer = packer
        narrow = [GraphTier(size, 1) for size in batch_sizes(max_sequences)]
        wide = wide_tiers(max_sequences, packer.max_tokens)
        self._tiers = sorted([*narrow, *wide], key=lambda tier: (tier.tokens, tier.rows))
        self.captured: dict[tuple[GraphTier, bool], tuple[StaticBatch, RecordedGraph]] = {}
        self.replays = 0
        for tier in reversed(self._tiers):  # the largest first: the others fit in its memory
            for shared in (True, False):
                if shared and tier.sequences == 1:
                    continue
                static = StaticBatch(kv, tables, tier, shared=shared)
                recorded = recorder.record(lambda batch=static.batch: network(batch))  # type: ignore[misc]
                self.captured[tier, shared] = static, recorded

    def find_tier(self, slices: Sequence[SequenceSlice]) -> GraphTier | None:
        """The smallest tier that fits the step; None if there is none."""
        if any(part.draft_tokens for part in slices):
            return None
        counts = [len(part.token_ids) for part in slices]
        tokens, rows = sum(counts), max(counts)
        return next((tier for tier in self._tiers if tier.fits(slices, tokens, rows)), None)

    def forward(self, slices: Sequence[SequenceSlice], prefix: SharedPrefix | None) -> Tensor:
        """Logits `[logits, vocabulary]` fp32 of a step that has a tier."""
        tier = self.find_tier(slices)
        assert tier is not None
        static, recorded = self.captured[tier, prefix is not None]
        batch = self._packer.pack(
            slices, prefix, padded_sequences=tier.sequences, padded_tokens=tier.tokens
        )
        static.copy_inputs(batch)
        recorded.replay()
        self.replays += 1
        wanted = sum(part.wants_logits for part in slices)
        # A copy: the next replay overwrites it, while its tokens may still be sampled again.
        return recorded.output[:wanted].to(torch.float32, copy=True)
