"""Constraints of unfinished requests: compiled in the background, then attached to sequences."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from weakref import WeakKeyDictionary

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.ids import RequestId
from agentrt.engine.request_checks import check_shortest
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.sequence.forced_drafts import TokenGuesser
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.mask_place import MaskPlace
from agentrt.engine.sequence.reasoning import AnswerGrammar, ReasoningState
from agentrt.engine.sequence.sequence import Sequence
from agentrt.prompt import Codec
from agentrt.structured import CompiledConstraint
from agentrt.structured.call_state import CallsConstraint
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.reasoning import Thinking
from agentrt.structured.sandbox.cache import CompileCache
from agentrt.structured.vocabulary import alphabet_of


class GrammarRequests:
    """Constraints being compiled, by request.

    Args:
        codec: Codec with the vocabulary and the call frame.
        jump_forward: Whether forced tokens are appended without a forward.
        drafts: Whether the tokens of forced bytes are guessed.

    Attributes:
        cache: Compiled constraints.
    """

    def __init__(self, codec: Codec, *, jump_forward: bool = True, drafts: bool = False) -> None:
        self._codec = codec
        self._jump_forward = jump_forward
        self._drafts = drafts
        self.cache = CompileCache()
        self._futures: dict[RequestId, Future[CompiledConstraint]] = {}
        self._masks_may_last: WeakKeyDictionary[CompiledConstraint, bool] = WeakKeyDictionary()
        self._guessers: WeakKeyDictionary[CompiledConstraint, TokenGuesser] = WeakKeyDictionary()

    def prepare(self) -> None:
        """Prepare on a thread what every compilation needs of the vocabulary."""
        self.cache.prepare(self._codec.vocab)

    def start_compile(self, sequence: Sequence, window_tokens: int) -> None:
        """Start to compile the constraint of a sequence, unless it has a hole."""
        request = sequence.request
        constraint = request.constraint
        if constraint is None or constraint.holes or request.scored:
            return
        rooms = [request.sampling.max_tokens] if request.on_limit == "close" else []
        rooms += [window_tokens - sequence.prompt_tokens] if window_tokens else []
        self._futures[request.request_id] = self.cache.start_compile(
            constraint,
            self._codec.vocab,
            self._codec.call_frame,
            within_tokens=min(rooms, default=None),
        )

    def prewarm(self, constraints: Iterable[ConstraintSpec]) -> list[Future[CompiledConstraint]]:
        """Compile constraints ahead of their requests; errors are reported to the requests."""
        vocab, frame = self._codec.vocab, self._codec.call_frame
        return [self.cache.start_compile(constraint, vocab, frame) for constraint in constraints]

    def needs_grammar(self, sequence: Sequence) -> bool:
        """Whether its constraint, or a state for its reasoning, is still to be attached."""
        request = sequence.request
        return request.request_id in self._futures or request.thinking_tokens is not None

    def is_compiled(self, sequence: Sequence) -> bool:
        """Whether its constraint is compiled, or has failed to; true without a constraint."""
        future = self._futures.get(sequence.request.request_id)
        return future is None or future.done()

    def attach_grammar(self, sequence: Sequence, window_tokens: int) -> Finish | None:
        """Attach its compiled constraint to the sequence, and append the tokens forced at once.

        Raises:
            ConstraintError: The reasoning does not fit in `max_tokens`.
            ContextOverflow: The shortest output does not fit in the context window.
            Exception: Error of the compiler.
        """
        request = sequence.request
        future = self._futures.pop(request.request_id, None)
        compiled = future.result() if future is not None else None
        answer_grammar: AnswerGrammar = _free_answer
        if compiled is not None:
            check_shortest(sequence.prompt_tokens, compiled.min_tokens, window_tokens)
            answer_grammar = self._answer_grammar(sequence, compiled)
        if request.thinking_tokens is None:
            sequence.grammar = answer_grammar(0)
        else:
            sequence.grammar = self._reasoning_state(
                sequence, answer_grammar, compiled, window_tokens
            )
        finish = sequence_output.resume_output(sequence)
        return finish or sequence_output.append_forced_run(sequence, sequence.max_output_tokens)

    def _answer_grammar(self, sequence: Sequence, compiled: CompiledConstraint) -> AnswerGrammar:
        """Makes the grammar state of the answer, behind some tokens of reasoning."""
        request = sequence.request
        assert request.constraint is not None
        may_last = self._may_mask_slowly(compiled, request.constraint)
        guesser = self._guesser(compiled) if self._drafts else None
        return lambda reasoning_tokens: GrammarState(
            compiled,
            sequence.max_output_tokens - reasoning_tokens,
            request.on_limit,
            mask_place=MaskPlace(stays_apart=may_last),
            jump_forward=self._jump_forward,
            guesser=guesser,
        )

    def _reasoning_state(
        self,
        sequence: Sequence,
        answer_grammar: AnswerGrammar,
        compiled: CompiledConstraint | None,
        window_tokens: int,
    ) -> ReasoningState:
        """Reasoning state with a thinking budget that leaves room for the shortest answer."""
        request, max_tokens = sequence.request, sequence.max_output_tokens
        frame, vocab = self._codec.think_frame, self._codec.vocab
        wanted_tokens = request.thinking_tokens
        assert wanted_tokens is not None
        answer_tokens = (compiled.min_tokens or 1) if compiled is not None else 1
        min_tokens = len(Thinking(frame, vocab, 0).shortest) + answer_tokens
        check_shortest(sequence.prompt_tokens, min_tokens, window_tokens)
        if min_tokens > max_tokens:
            raise ConstraintError(
                f"an answer behind a thought needs at least {min_tokens} tokens, max_tokens is "
                f"{max_tokens}",
                hint=f"Give max_tokens={min_tokens} or more, or leave thinking out",
            )
        thinking = Thinking(frame, vocab, min(wanted_tokens, max_tokens - min_tokens))
        return ReasoningState(
            thinking, answer_grammar, compiled, request.on_limit, jump_forward=self._jump_forward
        )

    def _may_mask_slowly(self, compiled: CompiledConstraint, constraint: ConstraintSpec) -> bool:
        if compiled not in self._masks_may_last:
            self._masks_may_last[compiled] = (
                compiled.is_costly
                if isinstance(compiled, CallsConstraint)
                else may_take_long(constraint)
            )
        return self._masks_may_last[compiled]

    def _guesser(self, compiled: CompiledConstraint) -> TokenGuesser:
        if compiled not in self._guessers:
            alphabet = alphabet_of(self._codec.vocab)
            self._guessers[compiled] = TokenGuesser(alphabet.tokenize, alphabet.bytes_of)
        return self._guessers[compiled]

    def forget(self, request_id: RequestId) -> None:
        """Drop the compilation of a finished request."""
        self._futures.pop(request_id, None)

    def pending_compiles(self, sequences: Iterable[Sequence]) -> list[Future[CompiledConstraint]]:
        """Compilations for which sequences without a hole wait."""
        if not self._futures:
            return []
        compiling = (one for one in sequences if one.compiling)
        found = (self._futures.get(one.request.request_id) for one in compiling)
        return [future for future in found if future is not None]

    def close(self) -> None:
        """End its threads."""
        self.cache.close()


def _free_answer(reasoning_tokens: int) -> None:
    """No grammar state: the answer is free."""
