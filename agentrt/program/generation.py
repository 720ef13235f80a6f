"""A generation: the node of one answer of a model, for any type of chat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar
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
from agentrt.program.node import Node, NodeWork, when_done
from agentrt.program.options import PlainGenOptions, check_output
from agentrt.program.output import OutputSpec
from agentrt.program.output_reading import Partial, PartialReading, TextReading
from agentrt.program.prompt_prefix import (
    PromptPrefix,
    inputs_of,
    rebase,
    with_answer,
)
from agentrt.program.scope import Scope, current_scope, sooner
from agentrt.protocol.backend import OnLimit
from agentrt.protocol.step_output import Ledger, TokenLogprob

T_co = TypeVar("T_co", covariant=True)
ChatT = TypeVar("ChatT", bound=PromptPrefix[Any])
GenerationT = TypeVar("GenerationT", bound="Generation[Any, Any]")
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
        """Nodes with values that the prompt or the constraint needs; see `inputs_of`."""
        return tuple(dict.fromkeys(inputs_of(self.chat) + self.output.sources))


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


@dataclass(slots=True, eq=False)
class WrittenOutput:
    """The output of a generation so far, for the runtime and for readings.

    Attributes:
        chunks: Text of the answer; another list once it has been dropped.
        reasoning: Text of the reasoning, likewise.
        generated: The finished answer as a part of a prompt.
        produced_tokens: Length in tokens.
        handed_on: Whether the program may have seen text of an unfinished output.
        first_token_at_s: Instant of the first token; 0.0 before.
    """

    chunks: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    generated: Generated = _NOTHING_WRITTEN
    produced_tokens: int = 0
    handed_on: bool = False
    first_token_at_s: float = 0.0

    def read(self, chunks: list[str]) -> str:
        """Text that the program sees."""
        self.handed_on |= bool(chunks)
        return "".join(chunks)

    def forget(self) -> None:
        """Drop the text, of which the program was given none."""
        if self.chunks:  # else a reading waits for the first text of this list
            self.chunks = []
        if self.reasoning:
            self.reasoning = []


class Generation(Node[T_co], Generic[T_co, ChatT]):
    """One answer of a model, already submitted; `Gen` is this for `Chat`."""

    __slots__ = (
        "_changed",
        "_ctx",
        "_ctx_serial",
        "attempts",
        "logprobs",
        "meta",
        "output_ids",
        "prompt",
        "replaced_prompt",
        "scores",
        "written",
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
        self.written = WrittenOutput()
        self.attempts: tuple[FailedAttempt, ...] = ()
        self.scores: tuple[Score[T_co], ...] = ()
        self._changed: Notifier | None = None
        self.meta = _NO_META
        self.output_ids: Sequence[int] = ()  # so far, without the end token
        self.logprobs: Sequence[TokenLogprob] = ()  # one of each of them, if they were asked for

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
            # Made once more, it is the same chat.
            chat = with_answer(self.prompt, self, self._ctx_serial)
            self._ctx, self._ctx_serial = ref(chat), chat.serial
        return chat

    @property
    def text(self) -> str:
        """The text so far; kept when the generation is cancelled or fails."""
        return self.written.read(self.written.chunks)

    @property
    def thinking(self) -> str:
        """The reasoning before the answer so far; see `thinking` of `GenOptions`."""
        return self.written.read(self.written.reasoning).strip()

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

    def _segment(self, *, as_answer: bool = False, style: JsonStyle = "compact") -> Segment:
        """The ids and text of a finished answer; else as of any node."""
        if as_answer and self._done and self._error is None:
            return self.written.generated
        return super()._segment(as_answer=as_answer, style=style)

    def _read_text(self) -> TextReading:
        self.written.handed_on = True
        return TextReading(self, self._notifier(), self.written.chunks)

    def _forget_text(self) -> None:
        self.written.forget()

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


# What follows is for the runtime and for readers, and no part of the class, as in `node`.


def submit(
    kind: type[GenerationT],
    chat: PromptPrefix[Any],
    output: OutputSpec,
    options: PlainGenOptions,
    on_overflow: OverflowCallback | None = None,
    *,
    site: str = "",
) -> GenerationT:
    """Make a node and hand it to the run; its site is the caller's unless one is given.

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
    gen = kind(scope, chat, output, name, site or call_site(), given, on_overflow)
    scope.adopt(gen)
    for budget in scope.budgets:
        budget.reserve_tokens(gen.max_tokens)
        when_done(gen, partial(_release, budget, gen.max_tokens))
    return gen


def add_text(gen: Generation[Any, Any], text: str) -> None:
    """Append text to the answer."""
    gen.written.chunks.append(text)
    if gen._changed is not None:
        gen._changed.notify_all()


def forget_text(gen: Generation[Any, Any]) -> None:
    """Drop the output, of which the program was given no text."""
    gen._forget_text()


def retry(gen: Generation[Any, ChatT], chat: ChatT, seed: int) -> None:
    """Prepare another attempt, which answers `chat`; the chats of the program stay as is."""
    sampling = replace(gen.work.sampling, seed=seed)
    gen.work = replace(gen.work, chat=chat, sampling=sampling, on_overflow=None)


def replace_prompt(gen: Generation[Any, ChatT], prompt: ChatT) -> None:
    """Answer a shorter prompt; chats that continue the answer continue `prompt` too."""
    gen.replaced_prompt = gen.replaced_prompt or gen.prompt
    gen.prompt = prompt
    gen.work = replace(gen.work, chat=prompt)
    chat = gen._ctx() if gen._ctx is not None else None
    if chat is not None:
        rebase(chat, prompt)


def _release(budget: Budget, tokens: int, _gen: Node[Any]) -> None:
    budget.release_tokens(tokens)
