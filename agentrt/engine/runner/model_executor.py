"""A step computed by the model: forward pass, grammar masks, token sampler.

With overlap the forward of a step is launched before the tokens of the last are known here. Its
rows then name their last token by the slot that drew it. If a row turns out otherwise (an end, a
forced run, another choice), it is void, not wrong: the KV that it wrote is either that of the token
that was taken, or written again.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from concurrent.futures import Future
from dataclasses import dataclass, field

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.allocator import BlockTableWriter
from agentrt.engine.kv.offload import OffloadCache, TimedCopier, open_offload
from agentrt.engine.runner.executor import LaunchedBatch, ScheduledBatch
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.sampling.grammar_masks import GrammarMasks
from agentrt.engine.sampling.grammar_requests import GrammarRequests
from agentrt.engine.sampling.sequence_output import SampledStep
from agentrt.engine.sampling.token_sampler import PendingSample, TokenSampler
from agentrt.engine.scheduling.scheduler import ScheduledSequence
from agentrt.engine.sequence.jump_forward import DraftedTokens
from agentrt.engine.sequence.sequence import Sequence
from agentrt.prompt import Codec

TILE_TOKENS = 4096


@dataclass(slots=True, eq=False)
class ModelBatch(LaunchedBatch):
    """A batch whose forward was launched.

    Attributes:
        logits: `[rows, vocabulary]`, maybe still being computed.
        masks: Masks that are being filled beside it.
        drafted: By sequence, guesses that were computed behind its row.
        pending: Tokens of the sampled rows, being drawn.
    """

    logits: Tensor = field(kw_only=True)
    masks: Future[GrammarMasks] | None = None
    drafted: dict[Sequence, DraftedTokens] = field(default_factory=dict)
    pending: PendingSample | None = None


class ModelExecutor:
    """Computes batches with a model; see `StepExecutor`.

    Args:
        config: Settings of the engine.
        clock: Clock for the time of copies to the offload tier.
        tile_tokens: Most tokens of KV that attention reads at once.
        runner: Computes the forward pass; None loads the model that `config` names.

    Attributes:
        runner: Computes the forward pass.
        sampler: Samples the tokens.

    Raises:
        ModelInvalid: The model directory cannot be loaded.
        UsageError: The memory for the lower tier holds no page.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Clock,
        *,
        tile_tokens: int = TILE_TOKENS,
        runner: ModelRunner | None = None,
    ) -> None:
        self.codec = Codec.load(config.model_path)
        self.runner = runner or ModelRunner(config, tile_tokens)
        model = self.runner.model
        self.model = model.name
        self.logits_size = model.logits_size
        self.window_tokens = model.window_tokens
        self.pages = self.runner.kv.pages
        self.tables: BlockTableWriter = self.runner.tables
        vocab = self.codec.vocab
        self.sampler = TokenSampler(
            frozenset(vocab.eos_ids),
            frozenset(vocab.special_ids.values()),
            used_ids=vocab.size,
            logits_size=model.logits_size,
            kernels=model.kernels,
        )
        offload = open_offload(config, self.runner.kv, model.kernels, clock)
        self.offload: OffloadCache[TimedCopier] | None = offload
        self.runner.kv_arrival = offload.copier if offload is not None else None
        on_cuda = model.layout.device.type == "cuda"
        self.overlaps = config.overlap == "on" or (config.overlap == "auto" and on_cuda)
        # A step that is launched before the last is told would not know which guesses were right.
        drafts = config.jump_forward and not self.overlaps
        self.grammars = GrammarRequests(self.codec, jump_forward=config.jump_forward, drafts=drafts)
        self.grammars.prepare()
        self._step_tokens = config.step_tokens
        self._page_tokens = config.page_tokens

    def launch(self, plan: ScheduledBatch) -> ModelBatch:
        """Start the forward; one step, since only its tokens say what the next computes."""
        parts: list[SequenceSlice] = []
        rows: list[Sequence] = []
        drafts = False
        for sequence, count in plan.shares:
            part = _slice(sequence, count)
            parts.append(part)
            if part.wants_logits:
                rows.append(sequence)
                drafts = drafts or bool(sequence.draft_tokens)
        # Ahead of the tokens of the last step a grammar does not know what it masks.
        masks = None if plan.ahead else self.sampler.begin_masks(rows)
        if drafts and not plan.ahead:
            self._add_drafts(plan.shares, parts)
        logits = self.runner.forward(parts)
        drafted: dict[Sequence, DraftedTokens] = {}
        if drafts:
            logits, drafted = _apart(rows, [part for part in parts if part.wants_logits], logits)
        return ModelBatch(rows, logits=logits, masks=masks, drafted=drafted)

    def sample(self, batch: ModelBatch, rows: Rows[Sequence]) -> None:
        """Start to draw a token for those of the batch's rows that still want one."""
        batch.sampled = list(rows)
        if not rows:
            return
        logits = batch.logits
        if len(rows) < len(batch.rows):
            kept = set(rows)
            logits = logits[[at for at, sequence in enumerate(batch.rows) if sequence in kept]]
        batch.pending = self.sampler.sample(batch.sampled, logits, batch.masks)
        if self.overlaps:  # else every token is known here before the next step is packed
            self.runner.remember_tokens([one.slot for one in rows], batch.pending.token_ids)

    def collect(self, batch: ModelBatch, alive: Rows[bool]) -> SampledStep:
        """Wait for the tokens, and append each to its sequence."""
        return self.sampler.append_tokens(batch.sampled, batch.pending, alive, batch.drafted)

    def logits_at(self, parts: Rows[SequenceSlice], rows: Rows[int]) -> Tensor:
        """Logits `[rows, vocabulary]` fp32 behind these rows of the packed `parts`."""
        return self.runner.logits_at(parts, rows)

    def plain_steps(self, sequence: Sequence) -> int:
        """One: the next token may be the last."""
        return 1

    def forget(self, sequence: Sequence) -> None:
        """The sequence is over: nothing waits for its grammar."""
        self.grammars.forget(sequence.request.request_id)

    def close(self) -> None:
        """End the threads. Idempotent."""
        self.grammars.close()
        self.sampler.close()

    def _add_drafts(self, shares: Rows[ScheduledSequence], parts: list[SequenceSlice]) -> None:
        """Guesses go with what is known, if there is room for them without asking."""
        left = self._step_tokens - sum(len(part.token_ids) for part in parts)
        for (sequence, _), part in zip(shares, parts, strict=True):
            if not sequence.draft_tokens or not part.wants_logits:
                continue
            known_tokens = part.first_position + len(part.token_ids)
            room = len(sequence.pages) * self._page_tokens - known_tokens
            guess = sequence.draft_tokens[: max(0, min(left, room))]
            part.token_ids = [*part.token_ids, *guess]
            part.draft_tokens = len(guess)
            left -= len(guess)


def _apart(
    rows: Rows[Sequence], parts: Rows[SequenceSlice], logits: Tensor
) -> tuple[Tensor, dict[Sequence, DraftedTokens]]:
    """The logits of `rows`, and what was computed behind them."""
    own: list[int] = []
    drafted: dict[Sequence, DraftedTokens] = {}
    at = 0
    for sequence, part in zip(rows, parts, strict=True):
        own.append(at)
        past = at + 1 + part.draft_tokens
        if part.draft_tokens:
            guess = list(part.token_ids[-part.draft_tokens :])
            drafted[sequence] = DraftedTokens(guess, logits[at + 1 : past])
        at = past
    return logits[own], drafted


def _slice(sequence: Sequence, count: int) -> SequenceSlice:
    done, tokens = sequence.computed_tokens, sequence.tokens
    known = tokens[done : done + count]
    if len(known) < count:
        known.append(-1 - sequence.slot)  # drawn by the step before, known on the device only
    whole = done + count == len(tokens) + sequence.in_flight
    return SequenceSlice(sequence.slot, known, done, sequence.complete and whole)
