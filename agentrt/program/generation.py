"""A generation: the node of one answer of a model, for any type of chat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar
from weakref import ReferenceType, ref

from agentrt.base.errors import FailedAttempt, UsageError
from agentrt.base.json_style import JsonStyle
from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Generated, Segment
from agentrt.program.budget import Budget
from agentrt.program.call_options import CallOptions, checked_options
from agentrt.program.call_site import call_site
from agentrt.program.node import Node, NodeWork
from agentrt.program.options import PlainGenOptions, check_output
from agentrt.program.output import OutputSpec
from agentrt.program.output_reading import Partial, PartialReading, TextReading
from agentrt.program.prompt_prefix import PromptPrefix
from agentrt.program.scope import Scope, current_scope, sooner
from agentrt.protocol.backend import OnLimit
from agentrt.protocol.step_output import Ledger, TokenLogprob

T_co = TypeVar("T_co", covariant=True)
ChatT = TypeVar("ChatT", bound=PromptPrefix[Any])
OverflowCallback = Callable[[Any], Any]


@record
class GenerateWork(NodeWork, Generic[ChatT]):
    """One generation.

    Attributes:
        chat: The prompt, perhaps with pending parts.
        output: The type of the output.
        sampling: How tokens are picked.
        on_limit: "raise" or "close".
        model: Role of the engine.
        deadline_at_s: Deadline of the node itself or of a `limits` block around it, or None.
        on_overflow: Called for a shorter chat if this one leaves too little room.
        thinking_tokens: Most tokens of reasoning before the output; None leaves it to the model.
        scored: Whether the options of a choice are scored instead of decoding one.
        retries: How often a checked output may be generated again.
        cache: Whether the response cache is used; None leaves it to the engine.
    """

    chat: ChatT
    output: OutputSpec
    sampling: SamplingParams
    on_limit: OnLimit
    model: str
    deadline_at_s: float | None
    on_overflow: OverflowCallback | None = None
    thinking_tokens: int | None = None
    scored: bool = False
    retries: int = 0
    cache: bool | None = None

    def inputs(self) -> tuple[Node[Any], ...]:
        """Nodes with values that the prompt or the constraint needs; see `PromptPrefix.inputs`."""
        return tuple(dict.fromkeys(self.chat.inputs() + self.output.sources))


@record
class GenMeta:
    """How a generation went; complete once it is done.

    `gen.meta` has it. Use it to see why an output ended, and where its time went.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def reason() -> str:
        ...     gen = chat().user("Name a river.").generate()
        ...     await gen
        ...     return gen.meta.finish_reason
        >>> reason.run()
        'stop'

    Attributes:
        model: The model that served it.
        finish_reason: `stop`, `length`, `cancelled` or `failed`; "" while it runs.
        closed_early: Whether the output was driven to its shortest valid end.
        ledger: The engine's account of its time and tokens.
        logprobs: One entry a token, if they were asked for.
        stopped_by: The stop string that ended it, or "".
    """

    model: str = ""
    finish_reason: str = ""
    closed_early: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    logprobs: tuple[TokenLogprob, ...] = ()
    stopped_by: str = ""


_NO_META = GenMeta()
_NOTHING_WRITTEN = Generated("")


@record
class Score(Generic[T_co]):
    """How likely one option of a choice is.

    `gen.scores` has one an option after `generate(choice, scored=True)`. Use it if the confidence
    matters and not only the answer.

    Example:
        >>> from agentrt import Score
        >>> score = Score("yes", probability=0.9, logprob=-0.5, tokens=2)
        >>> score.logprob / score.tokens  # comparable between options of different lengths
        -0.25

    Attributes:
        value: The option.
        probability: Probability among the options, which sum to 1.
        logprob: Log probability that the model writes just this option and ends. Models prefer
            short or long options, so compare `logprob / tokens` between options of very different
            lengths.
        tokens: Length of the option, the end token included.
    """

    value: T_co
    probability: float
    logprob: float
    tokens: int


class Generation(Node[T_co], Generic[T_co, ChatT]):
    """One answer of a model, already submitted; `Gen` is this for `Chat`."""

    __slots__ = (
        "_changed",
        "_ctx",
        "_ctx_serial",
        "attempts",
        "chunks",
        "first_token_at_s",
        "generated",
        "handed_on",
        "logprobs",
        "meta",
        "output_ids",
        "produced_tokens",
        "prompt",
        "reasoning",
        "replaced_prompt",
        "scores",
    )
    work: GenerateWork[ChatT]

    def __init__(
        self,
        scope: Scope,
        chat: ChatT,
        output: OutputSpec,
        name: str,
        site: str,
        given: CallOptions,
        on_overflow: OverflowCallback | None = None,
    ) -> None:
        deadline_at_s = scope.block_deadline_at_s
        if given.deadline_s is not None:
            deadline_at_s = sooner(deadline_at_s, scope.run.now_s() + given.deadline_s)
        node_id = scope.next_id(name)
        work = GenerateWork(
            chat,
            output,
            given.sampling_with(scope.run.seed_of(node_id)),
            given.on_limit or ("close" if scope.close else "raise"),
            given.model,
            deadline_at_s,
            on_overflow,
            given.thinking_tokens,
            given.scored,
            given.retries if output.kind == "value" else 0,
            given.cache,
        )
        super().__init__(scope, node_id, "generate", name, site, work)
        self.prompt = chat
        self.replaced_prompt: ChatT | None = None  # the first prompt, which did not fit
        # Weak, because the chat holds this node: a chat that is not continued must go at once.
        self._ctx: ReferenceType[ChatT] | None = None
        self._ctx_serial: int | None = None
        self.chunks: list[str] = []
        self.reasoning: list[str] = []
        self.attempts: tuple[FailedAttempt, ...] = ()
        self.scores: tuple[Score[T_co], ...] = ()
        self._changed: Notifier | None = None
        self.meta = _NO_META
        self.generated = _NOTHING_WRITTEN
        self.output_ids: Sequence[int] = ()  # so far, without the end token
        self.logprobs: Sequence[TokenLogprob] = ()  # one of each of them, if they were asked for
        self.produced_tokens = 0
        self.handed_on = False  # whether the program may have seen text of an unfinished output
        self.first_token_at_s = 0.0

    @classmethod
    def submit(
        cls,
        chat: ChatT,
        output: OutputSpec,
        options: PlainGenOptions,
        on_overflow: OverflowCallback | None = None,
        *,
        site: str = "",
    ) -> Self:
        """Make the node and hand it to the run; its site is the caller's unless one is given.

        Raises:
            NoRun: No run is active.
            UsageError: An option does not exist or is out of range.
            BudgetExceeded: A `limits` block has no token left.
        """
        scope = current_scope("generate")
        given = checked_options(options)
        if given.has_phases:
            check_output(output, options)
        scope.run.check_model(given.model)
        for budget in scope.budgets:
            given = given.with_max_tokens(budget.grant_tokens(given.sampling.max_tokens))
        name = given.name or chat.label or output.name
        gen = cls(scope, chat, output, name, site or call_site(), given, on_overflow)
        scope.adopt(gen)
        for budget in scope.budgets:
            budget.reserve_tokens(gen.max_tokens)
            gen.when_done(partial(_release, budget, gen.max_tokens))
        return gen

    def cancel(self, reason: str = "", *, close: bool = False) -> None:
        """End it before it is through.

        Args:
            reason: Stands in traces and errors.
            close: Keep a valid value: the output is driven to its shortest valid end, and awaiting
                gives that value. Otherwise awaiting raises `NodeCancelled`.

        Raises:
            UsageError: `close=True`, but it was not declared with `on_limit="close"`, so no way to
                a valid end is held for it.
            Unsupported: `close=True`, but its engine cannot close outputs.
        """
        if not close:
            super().cancel(reason)
            return
        if self.work.on_limit != "close":
            raise UsageError(
                f"{self.label} cannot be closed: it was declared with on_limit='raise'",
                hint="Declare it with on_limit='close'",
            )
        if not self.done:
            self.scope.run.close(self)

    @property
    def ctx(self) -> ChatT:
        """The chat after this answer; usable at once, the answer is a pending part until then."""
        chat = self._ctx() if self._ctx is not None else None
        if chat is None:
            chat = self.prompt.with_answer(self)
            if self._ctx_serial is not None:  # it is the same chat, made once more
                chat.serial = self._ctx_serial
            self._ctx, self._ctx_serial = ref(chat), chat.serial
        return chat

    @property
    def text(self) -> str:
        """The text so far; kept when the generation is cancelled or fails."""
        self.handed_on |= bool(self.chunks)
        return "".join(self.chunks)

    @property
    def thinking(self) -> str:
        """The reasoning before the answer so far; see `thinking` of `GenOptions`."""
        self.handed_on |= bool(self.reasoning)
        return "".join(self.reasoning).strip()

    @property
    def max_tokens(self) -> int:
        """Most tokens that it may produce."""
        return self.work.sampling.max_tokens

    def stream(self) -> AsyncIterator[str]:
        """The text as it comes, from its beginning; may be read more than once.

        The text of a checked output comes once it has passed. Reasoning is left out. The iteration
        raises the node's error if it fails.
        """
        return self._read_text()

    def partials(self) -> AsyncIterator[Partial[T_co]]:
        """The known part of the value, each time it grows; the last one is complete."""
        constraint = self.work.output.constraint
        is_json = constraint is not None and constraint.kind == "json"
        return PartialReading(self._read_text(), is_json=is_json)

    # What follows is for the runtime and for readers.

    def add_text(self, text: str) -> None:
        """Append text to the answer."""
        self.chunks.append(text)
        if self._changed is not None:
            self._changed.notify_all()

    def forget_text(self) -> None:
        """Drop the output, of which the program was given no text."""
        if self.chunks:  # else a reading waits for the first text of this list
            self.chunks = []
        if self.reasoning:
            self.reasoning = []

    def retry(self, chat: ChatT, seed: int) -> None:
        """Prepare another attempt, which answers `chat`; the chats of the program stay as is."""
        sampling = replace(self.work.sampling, seed=seed)
        self.work = replace(self.work, chat=chat, sampling=sampling, on_overflow=None)

    def replace_prompt(self, prompt: ChatT) -> None:
        """Answer a shorter prompt; chats that continue the answer continue `prompt` too."""
        self.replaced_prompt = self.replaced_prompt or self.prompt
        self.prompt = prompt
        self.work = replace(self.work, chat=prompt)
        chat = self._ctx() if self._ctx is not None else None
        if chat is not None:
            chat.rebase(prompt)

    def segment(self, *, as_answer: bool = False, style: JsonStyle = "compact") -> Segment:
        """The ids and text of a finished answer; else as of any node."""
        if as_answer and self._done and self._error is None:
            return self.generated
        return super().segment(as_answer=as_answer, style=style)

    def _read_text(self) -> TextReading:
        self.handed_on = True
        return TextReading(self, self._notifier(), self.chunks)

    def _notifier(self) -> Notifier:
        if self._changed is None:
            self._changed = Notifier()
        return self._changed

    def _end(self) -> None:
        super()._end()
        if self._changed is not None:
            self._changed.notify_all()

    def _notify(self) -> None:
        """Wake the readings of the output."""
        if self._changed is not None:
            self._changed.notify_all()


def _release(budget: Budget, tokens: int, _gen: Node[Any]) -> None:
    budget.release_tokens(tokens)
