"""A generation: the node of one answer of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar
from weakref import ReferenceType, ref

from agentrt.base.errors import FailedAttempt, UsageError
from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.base.segments import Generated
from agentrt.program.call_site import call_site
from agentrt.program.node import Node, note_wait
from agentrt.program.node_specs import GenerateWork, OutputSpec
from agentrt.program.options import (
    PHASES,
    RETRIES,
    GenOptions,
    check_options,
    check_output,
    sampling_of,
)
from agentrt.program.scope import Scope, here, sooner
from agentrt.protocol.step_output import Ledger, TokenLogprob

if TYPE_CHECKING:
    from agentrt.program.chat import Chat

T_co = TypeVar("T_co", covariant=True)


@record
class GenMeta:
    """How a generation went; complete once it is done.

    Attributes:
        model: That served it.
        finish_reason: `stop`, `length`, `cancelled` or `failed`; "" while it runs.
        closed_early: It was driven to its shortest valid end.
        ledger: The engine's account of its time and tokens.
        logprobs: One a token, when asked for.
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

    Attributes:
        value: The option.
        probability: Among the options: they sum to 1.
        logprob: That the model writes just this option and ends; not comparable between options
            of very different lengths where a model prefers short or long ones: `logprob / tokens`
            is the mean over its tokens.
        tokens: How many it has, the end token with them.
    """

    value: T_co
    probability: float
    logprob: float
    tokens: int


@record
class Partial(Generic[T_co]):
    """What is known of an answer that is still being written.

    Attributes:
        text: Everything written so far.
        data: The value so far as plain Python: open strings and lists as far as they go; None
            while nothing is known.
        complete: Whether this is the whole answer.
    """

    text: str
    data: Any
    complete: bool


class Gen(Node[T_co]):
    """One answer of a model, already submitted.

    Example:
        ```python
        draft = chat(system="Be brief.").user("Why is the sky blue?").generate(max_tokens=60)
        again = draft.ctx.user("Shorter.").generate()      # before the draft exists
        async for text in draft.stream():
            print(text, end="")
        ```
    """

    __slots__ = (
        "_changed",
        "_ctx",
        "_ctx_serial",
        "attempts",
        "chunks",
        "first_token_at_s",
        "generated",
        "meta",
        "produced_tokens",
        "prompt",
        "replaced",
        "scores",
        "thought",
    )

    def __init__(
        self,
        scope: Scope,
        chat: Chat,
        output: OutputSpec,
        name: str,
        site: str,
        options: GenOptions,
    ) -> None:
        run = scope.run
        own_s = options.get("deadline")
        deadline_at_s = scope.block_deadline_at_s
        if own_s is not None:
            deadline_at_s = sooner(deadline_at_s, run.now_s() + own_s)
        node_id = scope.next_id(name)
        sampling = sampling_of(options, run.seed_of(node_id))
        work = GenerateWork(
            chat,
            output,
            sampling,
            options.get("on_limit", "close" if scope.close else "raise"),
            options.get("model", "default"),
            deadline_at_s,
            options.get("on_overflow"),
            options.get("thinking"),
            options.get("scored", False),
            options.get("retries", RETRIES) if output.checked else 0,
        )
        super().__init__(scope, node_id, "generate", name, site, work)
        self.prompt = chat
        self.replaced: Chat | None = None  # the prompt as it was before it was made to fit
        # Weak, for the chat holds this node: what nobody continues must go at once.
        self._ctx: ReferenceType[Chat] | None = None
        self._ctx_serial: int | None = None
        self.chunks: list[str] = []
        self.thought: list[str] = []
        self.attempts: tuple[FailedAttempt, ...] = ()
        self.scores: tuple[Score[T_co], ...] = ()
        self._changed: Notifier | None = None
        self.meta = _NO_META
        self.generated = _NOTHING_WRITTEN
        self.produced_tokens = 0
        self.first_token_at_s = 0.0

    @classmethod
    def submit(cls, chat: Chat, output: OutputSpec, options: GenOptions, *, site: str = "") -> Self:
        """Make the node and hand it to the run; its site is the caller's unless one is given."""
        scope = here("generate")
        check_options(options)
        if not PHASES.isdisjoint(options):
            check_output(output, options)
        scope.run.check_model(options.get("model", "default"))
        for budget in scope.budgets:
            options = budget.admit(options)
        name = options.get("name") or chat.label or output.name
        gen = cls(scope, chat, output, name, site or call_site(), options)
        scope.adopt(gen)
        for budget in scope.budgets:
            budget.watch(gen)
        return gen

    def cancel(self, reason: str = "", *, close: bool = False) -> None:
        """End it before it is through.

        Args:
            reason: Told in traces and errors.
            close: Keep a valid value: the output is driven to its shortest valid end, and awaiting
                gives what that says. Otherwise awaiting raises `NodeCancelled`.

        Raises:
            UsageError: `close=True`, and it was not declared with `on_limit="close"`: no way to a
                valid end is held for it.
            Unsupported: `close=True`, and its engine cannot.
        """
        if not close:
            super().cancel(reason)
            return
        assert isinstance(self.work, GenerateWork)
        if self.work.on_limit != "close":
            raise UsageError(
                f"{self.label} cannot be closed: it was declared with on_limit='raise'",
                hint="Declare it with on_limit='close'",
            )
        if not self.done:
            self._scope.run.close(self)

    @property
    def ctx(self) -> Chat:
        """The chat after this answer; usable at once, the answer is a pending part until then."""
        chat = self._ctx() if self._ctx is not None else None
        if chat is None:
            chat = self.prompt.after(self)
            if self._ctx_serial is not None:  # it is the same chat, made once more
                chat.serial = self._ctx_serial
            self._ctx, self._ctx_serial = ref(chat), chat.serial
        return chat

    @property
    def text(self) -> str:
        """What the model has written so far; kept when the generation is cancelled or fails."""
        return "".join(self.chunks)

    @property
    def thinking(self) -> str:
        """What the model has thought so far before its answer; see `thinking` of `GenOptions`."""
        return "".join(self.thought).strip()

    @property
    def max_tokens(self) -> int:
        """Most tokens it may produce."""
        assert isinstance(self.work, GenerateWork)
        return self.work.sampling.max_tokens

    def stream(self) -> AsyncIterator[str]:
        """The text as it comes, from its beginning; may be read more than once.

        Of an output that is checked it comes when it has passed. What was thought is no part of it.
        Raises the node's error where it fails.
        """
        return _Chunks(self)

    def partials(self) -> AsyncIterator[Partial[T_co]]:
        """What is known of the value, each time more of it is; the last one is complete."""
        return _Partials(self)

    # What follows is for the runtime and for readers.

    def add_text(self, text: str) -> None:
        """More text has come."""
        self.chunks.append(text)
        self.changed()

    def add_thought(self, text: str) -> None:
        """More of what it thinks has come."""
        self.thought.append(text)

    def ask_again(self, chat: Chat, seed: int) -> None:
        """Its answer did not pass: the next attempt is asked of `chat`, which nothing else is."""
        assert isinstance(self.work, GenerateWork)
        sampling = replace(self.work.sampling, seed=seed)
        self.work = replace(self.work, chat=chat, sampling=sampling, on_overflow=None)

    def rewrite(self, prompt: Chat) -> None:
        """Its prompt left too little room; from here on it, and what follows it, has another."""
        assert isinstance(self.work, GenerateWork)
        self.replaced = self.replaced or self.prompt
        self.prompt = prompt
        self.work = replace(self.work, chat=prompt)
        chat = self._ctx() if self._ctx is not None else None
        if chat is not None:
            chat.rebase(prompt)

    def changed(self) -> None:
        """Wake whoever reads along."""
        if self._changed is not None:
            self._changed.notify_all()

    async def change(self) -> None:
        """Wait for more text, another item, or the end."""
        if self._changed is None:
            self._changed = Notifier()
        await self._changed.wait()

    def _settle(self) -> None:
        super()._settle()
        self.changed()


class OutputReading:
    """Demands a generation while somebody reads along: from the first wait to the end.

    A class rather than an async generator, for a reader may be left at any point; the demand ends
    when nobody holds it any more.
    """

    def __init__(self, gen: Gen[Any]) -> None:
        self._gen = gen
        self._wants = False

    def __aiter__(self) -> Self:
        return self

    async def more(self, have: Callable[[], bool]) -> None:
        """Wait until `have()` or until the generation has ended."""
        gen = self._gen
        if not self._wants:
            self._wants = True
            gen.want()
        while not have() and not gen.done:
            await gen.change()

    async def end(self) -> NoReturn:
        """Raise the generation's error, or end the iteration."""
        await self._gen
        raise StopAsyncIteration

    def __del__(self) -> None:
        if self._wants:
            self._gen.unwant()


class _Chunks(OutputReading):
    """Reads the text of a generation along."""

    def __init__(self, gen: Gen[Any]) -> None:
        super().__init__(gen)
        self._next = 0

    async def __anext__(self) -> str:
        gen = self._gen
        if self._next == len(gen.chunks) and not gen.done:
            await self.more(lambda: self._next < len(gen.chunks))
            note_wait(gen)
        if self._next < len(gen.chunks):
            text = "".join(gen.chunks[self._next :])
            self._next = len(gen.chunks)
            return text
        await self.end()


class _Partials(Generic[T_co]):
    """Reads the value of a generation along."""

    def __init__(self, gen: Gen[T_co]) -> None:
        from agentrt.structured import NOTHING, PartialJson

        self._nothing = NOTHING
        self._chunks = _Chunks(gen)
        self._text = ""
        assert isinstance(gen.work, GenerateWork)
        constraint = gen.work.output.constraint
        is_json = constraint is not None and constraint.kind == "json"
        self._json = PartialJson() if is_json else None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Partial[T_co]:
        if self._ended:
            raise StopAsyncIteration
        try:
            more = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._ended = True
            return Partial(self._text, self._data(), complete=True)
        self._text += more
        if self._json is not None:
            self._json.feed_text(more)
        return Partial(self._text, self._data(), complete=False)

    def _data(self) -> Any:
        if self._json is None:
            return self._text
        value = self._json.value()
        return None if value is self._nothing else value
