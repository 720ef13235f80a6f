"""The embedded engine: requests in, one `StepDone` a step out. Synchronous, for one thread.

A step: end what is over, share out tokens, one forward over all of it, pick a token for each row
that wants one, tell. It knows nothing of processes, programs or sockets.
"""

from __future__ import annotations

from concurrent.futures import Future, wait

from agentrt.backend import (
    Delta,
    End,
    Fill,
    GenerateRequest,
    KvHint,
    RequestFacts,
    StepDone,
    StepRecord,
    TokenPrompt,
)
from agentrt.cache import PagePool, Retention, key_of
from agentrt.clock import Clock
from agentrt.config import EngineConfig
from agentrt.constraints import CompiledConstraint
from agentrt.constraints.cache import CompileCache
from agentrt.engine import output
from agentrt.engine.abilities import abilities
from agentrt.engine.account import Account, Bucket
from agentrt.engine.batch import Part
from agentrt.engine.decoder import Decoder
from agentrt.engine.guide import Guide
from agentrt.engine.intake import (
    check_ids,
    check_length,
    check_request,
    check_shortest,
    out_of_pages,
)
from agentrt.engine.machine import Machine
from agentrt.engine.output import Finish
from agentrt.engine.paging import Paging
from agentrt.engine.roster import Roster
from agentrt.engine.sequence import Phase, Sequence
from agentrt.engine.stops import StopStrings
from agentrt.errors import AgentrtError, InternalError, RequestRejected, record
from agentrt.ids import RequestId
from agentrt.prompt import Codec

TILE_TOKENS = 4096
_COMPILE_WAIT_S = 0.005
_DEADLINE_STEPS = 2.0
"""Outputs are closed this many steps before their deadline."""

_RETENTION: dict[KvHint, Retention] = {
    "keep": Retention.KEEP,
    "drop": Retention.DROP,
    "demote": Retention.NORMAL,  # there is no lower tier to demote to
}

Share = tuple[Sequence, int]


class EngineCore:
    """Serves one model.

    Args:
        config: How it is set up.
        clock: Of all instants it tells.
        tile_tokens: Most tokens of KV that attention reads at once.

    Attributes:
        capabilities: What it can do.
        codec: Of its model.
        paging: Its pages, for those who watch.
        forwards: Forwards so far.
        decode_forwards: Of those, with at least one sequence past its prompt.

    Raises:
        ModelInvalid: The model directory cannot be loaded.
    """

    def __init__(
        self, config: EngineConfig, clock: Clock, *, tile_tokens: int = TILE_TOKENS
    ) -> None:
        self._config = config
        self._clock = clock
        self.codec = Codec.load(config.model_path)
        self._machine = Machine(config, tile_tokens)
        model = self._machine.model
        vocab = self.codec.vocab
        self._logits_size = model.logits_size
        windows = [tokens for tokens in (self.codec.window_tokens, model.window_tokens) if tokens]
        self._window_tokens = min(windows, default=0)
        self._decoder = Decoder(
            frozenset(vocab.eos_ids),
            used_ids=vocab.size,
            logits_size=model.logits_size,
            window_tokens=self._window_tokens,
        )
        pages = self._machine.kv.pages
        self.paging = Paging(
            PagePool(pages), config.page_tokens, self._machine.tables, config.max_running
        )
        self._roster = Roster(config, self.paging)
        self._compiles = CompileCache()
        self._compiles.prepare(vocab)
        self._compiling: dict[RequestId, Future[CompiledConstraint]] = {}
        self._deltas: list[Delta] = []
        self._ends: list[End] = []
        self._serial = 0
        self._steps = 0
        self._step_s = 0.0
        self.forwards = 0
        self.decode_forwards = 0
        self.capabilities = abilities(self.codec, model.name, self._window_tokens)

    def submit(self, request: GenerateRequest) -> None:
        """Take a request; what is wrong with it comes as its `End`."""
        now_s = self._clock.now_s()
        account = Account(received_at_s=now_s, mark_s=now_s)
        try:
            token_ids = check_request(request, self._logits_size)
            if self._roster.find(request.request_id) is not None:
                raise InternalError(f"request {request.request_id} was submitted twice")
        except AgentrtError as error:
            ledger = account.close(now_s, prompt_tokens=0, output_tokens=0)
            self._ends.append(End(request.request_id, "failed", ledger, error=record(error)))
            return
        assert isinstance(request.prompt, TokenPrompt)
        sequence = Sequence(
            request=request,
            serial=self._serial,
            tokens=list(token_ids),
            prompt_tokens=len(token_ids),
            complete=False,
            account=account,
            detokenizer=self.codec.detokenizer(keep_special=request.keep_special),
            stops=StopStrings(request.sampling.stop),
            demanded=request.demanded,
            deadline_at_s=request.deadline_at_s,
        )
        self._serial += 1
        self._roster.add(sequence)
        if request.constraint is not None:
            self._compiling[request.request_id] = self._compiles.begin(
                request.constraint, self.codec.vocab, self.codec.call_frame
            )
        if request.prompt.complete:
            self._complete(sequence, now_s)
        else:
            self._fits(sequence)

    def fill(self, request_id: RequestId, fill: Fill) -> None:
        """Append to a prompt that was submitted incomplete; a request that is over is no error."""
        sequence = self._roster.find(request_id)
        if sequence is None:
            return
        try:
            if sequence.complete:
                raise RequestRejected(f"request {request_id} was filled after it was complete")
            check_ids(fill.token_ids, self._logits_size)
        except AgentrtError as error:
            self._fail(sequence, error)
            return
        sequence.tokens += fill.token_ids
        sequence.prompt_tokens = len(sequence.tokens)
        if sequence.phase is Phase.HELD:
            sequence.phase = Phase.WAITING
        if fill.complete:
            self._complete(sequence, self._clock.now_s())
        else:
            self._fits(sequence)

    def facts(self, facts: tuple[RequestFacts, ...]) -> None:
        """What the order of waiting work depends on has changed."""
        for fact in facts:
            sequence = self._roster.find(fact.request_id)
            if sequence is not None:
                sequence.demanded = fact.demanded
                sequence.deadline_at_s = fact.deadline_at_s

    def cancel(self, request_id: RequestId, reason: str) -> None:
        """End a request; what it computed stays in the tree. One that is over is no error."""
        sequence = self._roster.find(request_id)
        if sequence is not None:
            self._end(sequence, Finish("cancelled"), self._clock.now_s())

    def hint(self, token_ids: tuple[int, ...], hint: KvHint) -> None:
        """Say what will become of a prefix."""
        retention = _RETENTION.get(hint)
        if retention is not None:
            self.paging.tree.retain(key_of(token_ids), retention)

    def has_work(self) -> bool:
        """Whether `step` would do or tell anything."""
        return bool(self._ends or self._compiling_complete() or self._roster.has_runnable)

    def step(self) -> StepDone | None:
        """One step; None when there was nothing to do or tell yet."""
        began_s = self._clock.now_s()
        self._settle(began_s)
        shares = self._roster.plan(began_s)
        self._end_starved(began_s)
        step: StepRecord | None = None
        if shares:
            step = self._compute(shares, began_s)
        elif not self._ends:
            wait(self._compiling_complete(), timeout=_COMPILE_WAIT_S)
            return None
        done = StepDone(
            step=step,
            deltas=tuple(self._deltas),
            ends=tuple(self._ends),
            free_pages=self.paging.pool.free_pages,
            evictable_pages=self.paging.tree.evictable_pages,
        )
        self._deltas, self._ends = [], []
        return done

    def close(self) -> None:
        """Let go of threads. Idempotent."""
        self._compiles.close()
        self._decoder.close()

    def _complete(self, sequence: Sequence, now_s: float) -> None:
        """The prompt is whole: from here it queues, or waits for its grammar."""
        if sequence.phase is not Phase.RUNNING:
            sequence.account.book("hole", now_s)
        sequence.account.completed_at_s = now_s
        sequence.complete = True
        if self._fits(sequence) and sequence.request.request_id in self._compiling:
            self._take_guide(sequence, now_s)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether what is known of the prompt can be served; else the request is over."""
        try:
            check_length(
                sequence.prompt_tokens,
                complete=sequence.complete,
                window_tokens=self._window_tokens,
                page_tokens=self._config.page_tokens,
                total_pages=self.paging.pool.total_pages,
            )
        except AgentrtError as error:
            self._fail(sequence, error)
            return False
        return True

    def _take_guide(self, sequence: Sequence, now_s: float) -> None:
        """Give the sequence its compiled constraint, or let it wait alone until there is one."""
        request = sequence.request
        future = self._compiling[request.request_id]
        if not future.done():
            if sequence.phase is Phase.RUNNING:
                self._roster.rest(sequence)
            sequence.phase = Phase.COMPILING
            return
        del self._compiling[request.request_id]
        if sequence.phase is Phase.COMPILING:
            sequence.account.book("constraint", now_s)
            sequence.phase = Phase.WAITING
        most_tokens = output.most_output_tokens(sequence, self._window_tokens)
        try:
            compiled = future.result()
            check_shortest(sequence.prompt_tokens, compiled.min_tokens, self._window_tokens)
            sequence.guide = Guide(compiled, most_tokens, request.on_limit)
            finish = output.open_with(sequence, most_tokens)
        except Exception as error:  # whatever a compiler raises is the matter of this request alone
            self._fail(sequence, error)
            return
        if finish is not None:
            self._end(sequence, finish, now_s)

    def _compiling_complete(self) -> list[Future[CompiledConstraint]]:
        """Grammars that complete prompts wait for."""
        found = []
        for request_id, future in self._compiling.items():
            sequence = self._roster.find(request_id)
            if sequence is not None and sequence.phase is Phase.COMPILING:
                found.append(future)
        return found

    def _settle(self, now_s: float) -> None:
        """Grammars that are ready, and outputs that have to be closed for their deadline."""
        for sequence in self._roster:
            if sequence.phase is Phase.COMPILING:
                self._take_guide(sequence, now_s)
        soon_s = now_s + _DEADLINE_STEPS * self._step_s
        for sequence in self._roster:
            deadline = sequence.deadline_at_s
            if deadline is None or deadline > soon_s or not sequence.complete:
                continue
            if sequence.request.on_limit != "close" or sequence.phase is Phase.COMPILING:
                continue
            if sequence.guide is None or sequence.guide.closes:
                self._end(sequence, output.close(sequence), now_s)

    def _end_starved(self, now_s: float) -> None:
        total = self.paging.pool.total_pages
        for sequence in self._roster.starved:
            wanted = -(-(len(sequence.tokens) + 1) // self._config.page_tokens)
            self._fail(sequence, out_of_pages(wanted, total))
        self._roster.starved.clear()

    def _compute(self, shares: list[Share], began_s: float) -> StepRecord:
        """The forward, its tokens, and the books."""
        parts = [_part(sequence, count) for sequence, count in shares]
        rows = [
            sequence for (sequence, _), part in zip(shares, parts, strict=True) if part.wants_logits
        ]
        past = [sequence.computed_tokens >= sequence.prompt_tokens for sequence, _ in shares]
        masks = self._decoder.begin(rows)
        logits = self._machine.forward(parts)
        self.forwards += 1
        self.decode_forwards += any(past)
        prefill_tokens = sum(
            count for (_, count), decodes in zip(shares, past, strict=True) if not decodes
        )
        for sequence, count in shares:
            sequence.computed_tokens += count
            sequence.reached_tokens = max(sequence.reached_tokens, sequence.computed_tokens)
        outcome = self._decoder.decode(rows, logits, masks)
        ended_s = self._clock.now_s()
        for (sequence, _), decodes in zip(shares, past, strict=True):
            request_id = sequence.request.request_id
            bucket: Bucket = "decode" if decodes else "prefill"
            sequence.account.book_step(
                bucket, ended_s, outcome.masks_s.get(request_id, 0.0), len(shares)
            )
            if not decodes:
                self.paging.publish(sequence)
            if sequence.complete or sequence.pending_tokens(self._config.page_tokens):
                continue
            self._roster.rest(sequence)
        for sequence in rows:
            if sequence.account.first_token_at_s == 0.0 and sequence.output_tokens:
                sequence.account.first_token_at_s = ended_s
            self._tell(sequence)
        for sequence, finish in outcome.finishes:
            self._end(sequence, finish, ended_s)
        seconds = ended_s - began_s
        self._step_s = seconds if self._steps == 0 else 0.8 * self._step_s + 0.2 * seconds
        self._steps += 1
        return StepRecord(
            index=self._steps - 1,
            started_at_s=began_s,
            ended_at_s=ended_s,
            prefill_tokens=prefill_tokens,
            decode_tokens=len(rows),
            requests=tuple(sequence.request.request_id for sequence, _ in shares),
        )

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._end(sequence, Finish("failed", error=record(error)), self._clock.now_s())

    def _tell(self, sequence: Sequence) -> None:
        delta = output.take_delta(sequence)
        if delta is not None:
            self._deltas.append(delta)

    def _end(self, sequence: Sequence, finish: Finish, now_s: float) -> None:
        output.flush(sequence, finish)
        self._tell(sequence)
        account = sequence.account
        account.book(sequence.waits_in, now_s)
        if account.first_token_at_s == 0.0 and sequence.output_tokens:
            account.first_token_at_s = now_s
        self._roster.remove(sequence)
        self._compiling.pop(sequence.request.request_id, None)
        self._ends.append(
            End(
                request_id=sequence.request.request_id,
                reason=finish.reason,
                ledger=account.close(
                    now_s,
                    prompt_tokens=sequence.prompt_tokens,
                    output_tokens=sequence.output_tokens,
                ),
                closed_early=finish.closed_early,
                error=finish.error,
                stopped_by=finish.stopped_by,
            )
        )


def _part(sequence: Sequence, count: int) -> Part:
    done = sequence.computed_tokens
    return Part(
        slot=sequence.slot,
        token_ids=sequence.tokens[done : done + count],
        position=done,
        wants_logits=sequence.complete and done + count == len(sequence.tokens),
    )
