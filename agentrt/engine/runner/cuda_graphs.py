"""Short steps as captured graphs: one launch where an eager step launches hundreds of kernels.

A graph is captured for each tier, that is a number of sequences and the most rows that one of them
may bring: one while all decode, more where a grammar has forced a run or the tail of a prompt is
left. It exists with the shared prefix of siblings and without, and reads everything that varies
from buffers of constant place and size: no length is a number of the host, and the bounds that
shape grids are those of the longest context. A batch is padded to its tier: with sequences of one
token that store nothing and attend to any page, then with rows that belong to no sequence. Sampling
stays outside, so that masks may come late. Steps that compute more of a prompt are launched one
kernel at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from agentrt.engine.batch.batch import BatchPacker, ForwardBatch
from agentrt.engine.batch.input_packing import InputFields, words
from agentrt.engine.batch.part import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache
from agentrt_kernels.contract import PagedRows, SharedPrefix

_WARM_UPS = 2
"""Runs before a capture: kernels are compiled and libraries set up by then."""

WIDE_ROWS = (2, 4, 8)
"""Most rows of a sequence, beyond one, that are captured."""

_WIDE_TOKENS = 64
"""Rows of all sequences in such a tier: with more of them launching is a small part of a step."""


@dataclass(frozen=True, slots=True)
class Tier:
    """What is captured together.

    Attributes:
        sequences: How many.
        rows: Most rows of one of them.
    """

    sequences: int
    rows: int

    @property
    def tokens(self) -> int:
        """Rows of all."""
        return self.sequences * self.rows

    def holds(self, parts: Sequence[SequenceSlice], tokens: int, rows: int) -> bool:
        """Whether `parts` fit, which have `tokens` rows in all and at most `rows` each."""
        padding = self.sequences - len(parts)
        return padding >= 0 and self.rows >= rows and self.tokens >= tokens + padding


class RecordedGraph(Protocol):
    """A captured computation.

    Attributes:
        output: Filled by each replay.
    """

    output: Tensor

    def replay(self) -> None:
        """Launch it again, on what its buffers hold by then."""
        ...


class GraphRecorder(Protocol):
    """Captures computations, the largest first, in one pool of memory."""

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
            for _ in range(_WARM_UPS):
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


def tiers(most: int) -> tuple[int, ...]:
    """Batch sizes that are captured: 1, 2, 4, 8, then every eighth, and the largest."""
    sizes = {1, 2, 4, *range(8, most, 8), most}
    return tuple(sorted(size for size in sizes if size <= most))


def wide_tiers(most: int, most_tokens: int) -> tuple[Tier, ...]:
    """Tiers of several rows a sequence: sizes that double, and the largest, as far as they pay."""
    limit = min(_WIDE_TOKENS, most_tokens)
    sizes = [size for size in tiers(most) if size.bit_count() == 1 or size == most]
    found = [Tier(size, rows) for size in sizes for rows in WIDE_ROWS]
    return tuple(tier for tier in found if tier.tokens <= limit)


class StaticBatch:
    """Buffers that a captured graph reads, for the batches of one tier.

    Attributes:
        batch: Made of them.
    """

    def __init__(self, kv: KvCache, tables: BlockTables, tier: Tier, *, shared: bool) -> None:
        device = kv.layout.device
        sequences = tier.sequences
        flat = torch.zeros(words(tier.tokens, sequences), dtype=torch.int64, device=device)
        fields = InputFields.of(flat, tier.tokens, sequences)
        pages = tables.numbers.shape[1]

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
        fields.wanted.copy_(torch.arange(sequences))
        fields.slots.fill_(-1)
        self.batch = ForwardBatch(
            fields=fields,
            wanted=fields.wanted,
            paged=PagedRows(
                query_start=fields.query_start,
                kv_tokens=fields.kv_tokens,
                block_table=numbers(sequences, pages),
                most_query_tokens=tier.rows,
                most_kv_tokens=pages * kv.layout.page_tokens,
                prefix=prefix if shared else None,
            ),
            _parts=(),
            _kv=kv,
        )

    def refill(self, batch: ForwardBatch) -> None:
        """Take over what a packed batch of the same size says."""
        self.batch.fields.flat.copy_(batch.fields.flat)
        table = batch.paged.block_table
        self.batch.paged.block_table[:, : table.shape[1]].copy_(table)
        mine, given = self.batch.paged.prefix, batch.paged.prefix
        if mine is None or given is None:
            return
        groups, pages = given.block_table.shape
        mine.member_start[: groups + 1].copy_(given.member_start)
        mine.member_start[groups + 1 :].copy_(given.member_start[-1:])  # the others are empty
        mine.members[: given.members.shape[0]].copy_(given.members)
        mine.tokens[:groups].copy_(given.tokens)
        mine.tokens[groups:].zero_()
        mine.block_table[:groups, :pages].copy_(given.block_table)


class CudaGraphs:
    """Captured steps of one model.

    Args:
        decoder: What they compute; reads nothing that varies from the host.
        kv: The KV memory.
        tables: Block tables.
        packer: Packs their batches.
        recorder: Captures.
        most_sequences: The largest batch.

    Attributes:
        replays: How many steps were launched as graphs.
    """

    def __init__(
        self,
        decoder: Callable[[ForwardBatch], Tensor],
        kv: KvCache,
        tables: BlockTables,
        packer: BatchPacker,
        recorder: GraphRecorder,
        most_sequences: int,
    ) -> None:
        self._packer = packer
        narrow = [Tier(size, 1) for size in tiers(most_sequences)]
        wide = wide_tiers(most_sequences, packer.most_tokens)
        self._tiers = sorted([*narrow, *wide], key=lambda tier: (tier.tokens, tier.rows))
        self._captured: dict[tuple[Tier, bool], tuple[StaticBatch, RecordedGraph]] = {}
        self.replays = 0
        for tier in reversed(self._tiers):  # the largest first: the others fit into its memory
            for shared in (True, False):
                if shared and tier.sequences == 1:
                    continue
                static = StaticBatch(kv, tables, tier, shared=shared)
                recorded = recorder.record(lambda batch=static.batch: decoder(batch))  # type: ignore[misc]
                self._captured[tier, shared] = static, recorded

    def tier(self, parts: Sequence[SequenceSlice]) -> Tier | None:
        """The smallest that holds the step; None where there is none."""
        if any(part.drafted for part in parts):
            return None
        counts = [len(part.token_ids) for part in parts]
        tokens, rows = sum(counts), max(counts)
        return next((tier for tier in self._tiers if tier.holds(parts, tokens, rows)), None)

    def forward(self, parts: Sequence[SequenceSlice], prefix: SharedPrefix | None) -> Tensor:
        """Logits `[wanted, vocabulary]` fp32 of a step for which there is a tier."""
        tier = self.tier(parts)
        assert tier is not None
        static, recorded = self._captured[tier, prefix is not None]
        batch = self._packer.pack(parts, prefix, padded_to=tier.sequences, tokens_to=tier.tokens)
        static.refill(batch)
        recorded.replay()
        self.replays += 1
        wanted = sum(part.wants_logits for part in parts)
        # A copy: the next replay overwrites it while its tokens may still be drawn again.
        return recorded.output[:wanted].to(torch.float32, copy=True)
