"""The contract between the engine core and the executor of its steps.

`ModelExecutor` computes with a model. `agentrt.lab.sim.executor` stands in for it on virtual time.
Everything else of an engine is the same code for both: scheduling, allocation, metrics, outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.kv.allocator import BlockTableWriter
from agentrt.engine.kv.offload import OffloadCache, TimedCopier
from agentrt.engine.sampling.grammar_requests import GrammarRequests
from agentrt.engine.sampling.sequence_output import SampledStep
from agentrt.engine.scheduling.scheduler import ScheduledSequence
from agentrt.engine.sequence.draft import Draft
from agentrt.engine.sequence.sequence import Sequence
from agentrt.prompt import Codec


class StepSpan(NamedTuple):
    """Instants at which a step begins and ends."""

    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class ScheduledBatch:
    """A scheduled step.

    Attributes:
        sequences: The scheduled sequences, each with the number of tokens to compute.
        began_s: Instant at which scheduling began.
        waiting: Number of unfinished requests that are not in it.
        before_tokens: Whether it is launched before the tokens of the last step are known.
        max_steps: So many steps over the same sequences may be computed at once, each of which
            decodes one token of every sequence.
        drafts: Drafts to compute behind the known tokens of sequences.
    """

    sequences: list[ScheduledSequence]
    began_s: float
    waiting: int
    before_tokens: bool = False
    max_steps: int = 1
    drafts: Mapping[Sequence, Draft] = field(default_factory=dict)

    @property
    def draft_rows(self) -> int:
        """Tokens of all drafts."""
        return sum(len(draft.token_ids) for draft in self.drafts.values()) if self.drafts else 0


@dataclass(slots=True, eq=False)
class LaunchedBatch:
    """A batch that is being computed.

    Attributes:
        rows: Sequences that need a token.
        sampled: Rows for which a token is being sampled.
        spans: One a step if the executor knows them beforehand; () if the clock measures the only
            step.
    """

    rows: list[Sequence]
    sampled: list[Sequence] = field(default_factory=list)
    spans: Rows[StepSpan] = ()

    @property
    def steps(self) -> int:
        """Steps over this batch, each of which gives every row one token."""
        return len(self.spans) or 1


BatchT = TypeVar("BatchT", bound=LaunchedBatch)


class StepExecutor(Protocol[BatchT]):
    """Computes batches.

    Attributes:
        codec: Codec of the model.
        grammars: Constraints of unfinished requests.
        offload: KV offload tier, or None.
        draft_model: Draft model, or None.
        tables: Block tables of the running sequences.
        pages: Pages of the KV cache.
        page_bytes: Bytes of a page, that of a draft model included; 0 if unknown.
        logits_size: Width of the logits; token ids are below it.
        window_tokens: Context length of the weights; 0 if they do not limit it.
        rope_threshold: Length beyond which a sequence has other angles; 0 if there is none.
        model: Name of the model.
        overlaps: Whether a batch may be launched before the tokens of the last are known.
    """

    codec: Codec
    grammars: GrammarRequests
    offload: OffloadCache[TimedCopier] | None
    draft_model: DraftModel | None
    tables: BlockTableWriter
    pages: int
    page_bytes: int
    logits_size: int
    window_tokens: int
    rope_threshold: int
    model: str
    overlaps: bool

    def copy_page(self, source: PageId, target: PageId) -> None:
        """Copy the KV of a page to another one, after all batches launched so far."""
        ...

    def launch(self, scheduled: ScheduledBatch) -> BatchT:
        """Start to compute a batch."""
        ...

    def sample(self, batch: BatchT, rows: Rows[Sequence]) -> None:
        """Start to sample a token for those of the batch's rows that still need one."""
        ...

    def collect(self, batch: BatchT, alive: Rows[bool]) -> SampledStep:
        """Wait for the tokens, and append each to its sequence.

        Args:
            batch: Launched and sampled.
            alive: For each sampled row, whether its sequence is unfinished.
        """
        ...

    def logits_at(self, slices: Rows[SequenceSlice], rows: Rows[int]) -> Tensor:
        """Logits `[rows, vocabulary]` fp32 behind these rows of the packed `slices`."""
        ...

    def plain_steps(self, sequence: Sequence) -> int:
        """Number of steps certain to give a decoding sequence one token each, and no more."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Release what is kept for a finished sequence."""
        ...

    def close(self) -> None:
        """End its threads. Idempotent."""
        ...
