"""Constraints of requests under way: compiled aside, opened when prompt and grammar are whole."""

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
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.jump_forward import TokenGuesser
from agentrt.engine.sequence.reasoning import Begin, ReasoningState
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest
from agentrt.structured import CompiledConstraint
from agentrt.structured.reasoning import Thinking
from agentrt.structured.sandbox.cache import CompileCache
from agentrt.structured.sandbox.compile_cost import may_be_hostile
from agentrt.structured.vocabulary import alphabet_of


class GrammarRequests:
    """Futures of what is being compiled, by request.

    Args:
        codec: Whose vocabulary and call frame they are compiled for.
        jumps: Whether forced tokens are written without asking the model.
        drafts: Whether the spelling of forced bytes is guessed.
    """

    def __init__(self, codec: Codec, *, jumps: bool = True, drafts: bool = False) -> None:
        self._codec = codec
        self._jumps = jumps
        self._drafts = drafts
        self._compiles = CompileCache()
        self._futures: dict[RequestId, Future[CompiledConstraint]] = {}
        self._suspects: WeakKeyDictionary[CompiledConstraint, bool] = WeakKeyDictionary()
        self._spellers: WeakKeyDictionary[CompiledConstraint, TokenGuesser] = WeakKeyDictionary()

    def prepare(self) -> None:
        """Get what every compilation needs of the vocabulary ready, on a thread."""
        self._compiles.prepare(self._codec.vocab)

    def begin(self, request: GenerateRequest) -> None:
        """Start to compile what the request asks for."""
        if request.constraint is not None and not request.scored:
            self._futures[request.request_id] = self._compiles.begin(
                request.constraint, self._codec.vocab, self._codec.call_frame
            )

    def prewarm(self, constraints: Iterable[ConstraintSpec]) -> list[Future[CompiledConstraint]]:
        """Compile these before anybody waits for them; what is wrong is told to who asks."""
        vocab, frame = self._codec.vocab, self._codec.call_frame
        return [self._compiles.begin(constraint, vocab, frame) for constraint in constraints]

    def are_open_for(self, sequence: Sequence) -> bool:
        """Whether the sequence needs a grammar that it does not have yet."""
        return sequence.request.request_id in self._futures

    def is_ready_for(self, sequence: Sequence) -> bool:
        """Whether `give` would not wait."""
        return self._futures[sequence.request.request_id].done()

    def give(self, sequence: Sequence, window_tokens: int) -> Finish | None:
        """Hand the sequence its compiled constraint, and take what that forces at once.

        Raises:
            Exception: Whatever the compiler raised, or that no output would fit.
        """
        request = sequence.request
        compiled = self._futures.pop(request.request_id).result()
        check_shortest(sequence.prompt_tokens, compiled.min_tokens, window_tokens)
        assert request.constraint is not None
        is_slow = self._is_suspect(compiled, request.constraint)
        speller = self._speller(compiled) if self._drafts else None

        def begin(thought_tokens: int) -> GrammarState:
            return GrammarState(
                compiled,
                sequence.most_output_tokens - thought_tokens,
                request.on_limit,
                is_slow=is_slow,
                jumps=self._jumps,
                speller=speller,
            )

        if request.thinking_tokens is None:
            sequence.guide = begin(0)
        else:
            sequence.guide = self._thoughtful(sequence, begin, compiled, window_tokens)
        return sequence_output.open_with(sequence, sequence.most_output_tokens)

    def think(self, sequence: Sequence, window_tokens: int) -> Finish | None:
        """Let a sequence whose answer is free think before it.

        Raises:
            ConstraintError: Its thought does not fit into `max_tokens`.
            ContextOverflow: Nor into the window.
        """
        sequence.guide = self._thoughtful(sequence, _free, None, window_tokens)
        return sequence_output.open_with(sequence, sequence.most_output_tokens)

    def _thoughtful(
        self,
        sequence: Sequence,
        begin: Begin,
        compiled: CompiledConstraint | None,
        window_tokens: int,
    ) -> ReasoningState:
        """The guide of a sequence that thinks; briefly enough for its answer to fit behind it."""
        request, most_tokens = sequence.request, sequence.most_output_tokens
        frame, vocab = self._codec.think_frame, self._codec.vocab
        wanted_tokens = request.thinking_tokens
        assert wanted_tokens is not None
        answer_tokens = (compiled.min_tokens or 1) if compiled is not None else 1
        least_tokens = len(Thinking(frame, vocab, 0).shortest) + answer_tokens
        check_shortest(sequence.prompt_tokens, least_tokens, window_tokens)
        if least_tokens > most_tokens:
            raise ConstraintError(
                f"an answer behind a thought needs at least {least_tokens} tokens, max_tokens is "
                f"{most_tokens}",
                hint=f"Give max_tokens={least_tokens} or more, or leave thinking out",
            )
        thinking = Thinking(frame, vocab, min(wanted_tokens, most_tokens - least_tokens))
        return ReasoningState(thinking, begin, compiled, request.on_limit, jumps=self._jumps)

    def _is_suspect(self, compiled: CompiledConstraint, constraint: ConstraintSpec) -> bool:
        if compiled not in self._suspects:
            self._suspects[compiled] = may_be_hostile(constraint)
        return self._suspects[compiled]

    def _speller(self, compiled: CompiledConstraint) -> TokenGuesser:
        if compiled not in self._spellers:
            alphabet = alphabet_of(self._codec.vocab)
            self._spellers[compiled] = TokenGuesser(alphabet.spell, alphabet.bytes_of)
        return self._spellers[compiled]

    def forget(self, request_id: RequestId) -> None:
        """The request is over."""
        self._futures.pop(request_id, None)

    def awaited(self, sequences: Iterable[Sequence]) -> list[Future[CompiledConstraint]]:
        """What sequences with a whole prompt wait for."""
        if not self._futures:
            return []
        compiling = (one for one in sequences if one.phase is Phase.COMPILING)
        found = (self._futures.get(one.request.request_id) for one in compiling)
        return [future for future in found if future is not None]

    def close(self) -> None:
        """End its threads."""
        self._compiles.close()


def _free(thought_tokens: int) -> None:
    """Nothing guides an answer that is free."""
