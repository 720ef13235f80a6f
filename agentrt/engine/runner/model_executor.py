"""A step computed by the model: forward pass, grammar masks, token sampler.

With overlap the forward of a step is launched before the tokens of the last step are known on the
host. Its rows then refer to their last token by the slot in which it was sampled. If the sequence
goes on differently (an end, a forced run, another sample), the row is void, not wrong: the KV that
it wrote is that of the accepted token, or is written again.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass, field

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.kv.allocator import BlockTableWriter
from agentrt.engine.kv.offload import OffloadCache, TimedCopier, open_offload
from agentrt.engine.runner.draft_runner import HeadRunner, PairedTables, open_runners
from agentrt.engine.runner.executor import LaunchedBatch, ScheduledBatch
from agentrt.engine.runner.expert_counts import ExpertCounts
from agentrt.engine.runner.head_drafts import HeadDrafts
from agentrt.engine.runner.model_drafts import ModelDrafts
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.sampling.draw_rows import draw_rows
from agentrt.engine.sampling.grammar_masks import GrammarMasks
from agentrt.engine.sampling.grammar_requests import GrammarRequests
from agentrt.engine.sampling.grammar_threads import GrammarFuture
from agentrt.engine.sampling.record_table import read_table
from agentrt.engine.sampling.recorded_outputs import RecordedOutputs
from agentrt.engine.sampling.sequence_output import SampledStep
from agentrt.engine.sampling.token_sampler import PendingSample, TokenSampler
from agentrt.engine.sequence.draft import Draft, Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt.prompt import Codec

TILE_TOKENS = 4096


@dataclass(slots=True, eq=False)
class ModelBatch(LaunchedBatch):
    """A batch whose forward was launched.

    Attributes:
        logits: `[rows, vocabulary]`, also behind draft tokens; maybe still being computed.
        masks: Grammar masks that are being filled meanwhile.
        drafted: Drafts that were computed behind the rows of sequences.
        pending: Tokens of the sampled rows, being sampled.
    """

    logits: Tensor = field(kw_only=True)
    masks: GrammarFuture[GrammarMasks] | None = None
    drafted: dict[Sequence, Verification] = field(default_factory=dict)
    pending: PendingSample | None = None


class ModelExecutor:
    """Computes batches with a model; see `StepExecutor`.

    Args:
        config: Config of the engine.
        clock: Clock for the time of copies to the offload tier.
        tile_tokens: Most tokens of KV that attention reads at once.
        runner: Computes the forward pass; None loads the models that `config` names.
        draft_runner: Computes the draft model or the head beside a given `runner`, or None.

    Attributes:
        runner: Computes the forward pass.
        draft_model: Draft model, or None.
        sampler: Samples the tokens.

    Raises:
        ModelInvalid: A model directory cannot be loaded, or the draft model has another vocabulary.
        UsageError: The memory of the KV offload tier holds no page, or drafts are off with a draft
            model.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        *,
        tile_tokens: int = TILE_TOKENS,
        runner: ModelRunner | None = None,
        draft_runner: ModelRunner | HeadRunner | None = None,
    ) -> None:
        config = config.sized()
        self.codec = Codec.load(config.model_path)
        if runner is None:
            runner, draft_runner = open_runners(config, self.codec.vocab, tile_tokens)
        self.runner = runner
        model = self.runner.model
        self.model = model.name
        self.logits_size = model.logits_size
        self.window_tokens = model.window_tokens
        self.rope_threshold = model.rope_threshold
        self.pages = self.runner.kv.pages
        drafting = draft_runner.runner if isinstance(draft_runner, HeadRunner) else draft_runner
        both = (runner, drafting)
        self.page_bytes = sum(one.model.page_bytes for one in both if one is not None)
        self.tables: BlockTableWriter = runner.tables
        vocab = self.codec.vocab
        self.sampler = TokenSampler(
            frozenset(vocab.eos_ids),
            frozenset(vocab.special_ids.values()),
            used_ids=vocab.size,
            logits_size=model.logits_size,
            kernels=model.kernels,
        )
        if config.replay is not None:
            self.sampler.logits_processor = RecordedOutputs(read_table(config.replay))
        load = runner.expert_load
        self._expert_counts = None if load is None else ExpertCounts(load, config.max_running)
        self.draft_model: DraftModel | None = None
        if isinstance(draft_runner, HeadRunner):
            self.draft_model = HeadDrafts(draft_runner, self.sampler, config, clock)
        elif draft_runner is not None:
            self.draft_model = ModelDrafts(draft_runner, self.sampler, config, clock)
        if drafting is not None:
            self.tables = PairedTables(runner.tables, drafting.tables)
        offload = open_offload(config, self.runner.kv, model.kernels, clock)
        self.offload: OffloadCache[TimedCopier] | None = offload
        self.runner.kv_arrival = offload.copier if offload is not None else None
        on_cuda = model.layout.device.type == "cuda"
        self.overlaps = config.overlap == "on" or (config.overlap == "auto" and on_cuda)
        # A step that is launched before the last one's tokens are known cannot verify a draft.
        drafts = config.jump_forward and not self.overlaps
        self.grammars = GrammarRequests(self.codec, jump_forward=config.jump_forward, drafts=drafts)
        self.grammars.prepare()

    def copy_page(self, source: PageId, target: PageId) -> None:
        """Copy the KV of a page to another one, after all batches launched so far."""
        if self.runner.kv_arrival is not None:
            self.runner.kv_arrival.wait_layer(self.runner.model.layout.layers - 1)
        self.runner.kv.copy_page(source, target)
        if self.runner.layer_states is not None:
            self.runner.layer_states.copy_page(source, target)

    def launch(self, scheduled: ScheduledBatch) -> ModelBatch:
        """Start the forward of one step: what the next computes depends on its tokens."""
        slices: list[SequenceSlice] = []
        rows: list[Sequence] = []
        drafts = scheduled.drafts
        groups = self._load_groups(scheduled)
        for at, (sequence, count) in enumerate(scheduled.sequences):
            part = _slice(sequence, count, drafts.get(sequence) if drafts else None)
            if groups:
                part.load_group = groups[at]
            slices.append(part)
            if part.wants_logits:
                rows.append(sequence)
        # Before the tokens of the last step are known, a grammar cannot mask the next ones.
        masks = None if scheduled.before_tokens else self.sampler.mask_filler.begin_masks(rows)
        before = self._expert_uses()
        logits = self.runner.forward(slices)
        self._note_expert_uses(scheduled, before)
        drafted = {
            sequence: Verification(sequence, drafts[sequence], len(sequence.tokens))
            for sequence in rows
            if drafts and sequence in drafts
        }
        return ModelBatch(rows, logits=logits, masks=masks, drafted=drafted)

    def _load_groups(self, scheduled: ScheduledBatch) -> list[int]:
        """Group of each sequence's counters; [] if experts are not counted."""
        if self._expert_counts is None:
            return []
        return self._expert_counts.begin_batch([one for one, _ in scheduled.sequences])

    def _expert_uses(self) -> tuple[int, int]:
        """Hits and misses of the expert cache so far; zeros without one."""
        offload = self.runner.expert_offload
        return (0, 0) if offload is None else (offload.hits, offload.misses)

    def _note_expert_uses(self, scheduled: ScheduledBatch, before: tuple[int, int]) -> None:
        """Add the hits and misses of a forward to the metrics of each of its sequences."""
        if self.runner.expert_offload is None:
            return
        hits, misses = self._expert_uses()
        for sequence, _ in scheduled.sequences:
            sequence.metrics.expert_hits += hits - before[0]
            sequence.metrics.expert_misses += misses - before[1]

    def sample(self, batch: ModelBatch, rows: Rows[Sequence]) -> None:
        """Start to sample a token for those of the batch's rows that still need one."""
        batch.sampled = list(rows)
        if not rows:
            return
        logits, drafted = batch.logits, batch.drafted
        if len(rows) < len(batch.rows):
            kept = set(rows)
            drafted = {sequence: one for sequence, one in drafted.items() if sequence in kept}
            places, _ = draw_rows(batch.rows, batch.drafted)
            logits = logits[[at for at, one in enumerate(places) if one.sequence in kept]]
        batch.pending = self.sampler.sample(batch.sampled, logits, batch.masks, drafted)
        if self.overlaps:  # else every token is known on the host before the next step is packed
            self.runner.remember_tokens([one.slot for one in rows], batch.pending.token_ids)

    def collect(self, batch: ModelBatch, alive: Rows[bool]) -> SampledStep:
        """Wait for the tokens, and append each to its sequence."""
        return self.sampler.append_tokens(batch.sampled, batch.pending, alive, batch.drafted)

    def logits_at(self, slices: Rows[SequenceSlice], rows: Rows[int]) -> Tensor:
        """Logits `[rows, vocabulary]` fp32 behind these rows of the packed `slices`."""
        return self.runner.logits_at(slices, rows)

    def plain_steps(self, sequence: Sequence) -> int:
        """One: the next token may be the last."""
        return 1

    def forget(self, sequence: Sequence) -> None:
        """Drop what is under way for the grammar of a finished sequence."""
        self.grammars.forget(sequence.request.request_id)
        self.sampler.abandon(sequence)
        if self._expert_counts is not None:
            self._expert_counts.read(sequence)

    def close(self) -> None:
        """End the threads. Idempotent."""
        self.grammars.close()
        self.sampler.close()


def _slice(sequence: Sequence, count: int, draft: Draft | None) -> SequenceSlice:
    computed, tokens = sequence.computed_tokens, sequence.tokens
    token_ids = tokens[computed : computed + count]
    if len(token_ids) < count:
        token_ids.append(-1 - sequence.slot)  # sampled by the last step, known on the device only
    is_last = computed + count == len(tokens) + sequence.in_flight
    is_sampled = sequence.complete and is_last
    drafted = [] if draft is None else draft.token_ids
    return SequenceSlice(
        sequence.slot,
        [*token_ids, *drafted],
        computed,
        is_sampled,
        len(drafted),
        angle_offset=sequence.angle_offset,
        adapter=sequence.adapter,
    )
