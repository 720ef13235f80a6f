"""Chats and generations, the two types of the language that name each other.

A chat is an immutable prompt prefix, which is a position in the engine's tree of prefixes. Each
method gives a longer chat and leaves this one as it is; forking is using the value twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from typing_extensions import TypeForm, Unpack

from agentrt.base.record import record
from agentrt.program.constraints import Constraint
from agentrt.program.generation import Generation, submit
from agentrt.program.messages import ChatSerializer, chat_schema, messages_of, segments_of
from agentrt.program.options import PlainGenOptions
from agentrt.program.output import (
    MAX_CALLS,
    OutputSpec,
    calls_of,
    items_of,
    step_of,
    tagged_of,
    value_of,
)
from agentrt.program.output_reading import ItemReading
from agentrt.program.output_types import OutputUse, description_for
from agentrt.program.overflow import PromptOverflow
from agentrt.program.prompt_prefix import PromptPrefix, prompt_segments, with_more_tools, with_text
from agentrt.program.tagged_text import TaggedGeneration
from agentrt.program.tags import Tagged, Tags
from agentrt.program.tool import Tool
from agentrt.program.tool_call import Final, ToolCall

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class GenOptions(PlainGenOptions, total=False):
    """The keywords of every method that generates.

    Use the type for options that several calls share.

    Example:
        >>> from agentrt import GenOptions, chat, program
        >>> BRIEF: GenOptions = {"max_tokens": 60, "temperature": 0.0}
        >>> @program
        ... async def river() -> str:
        ...     return await chat().user("Name a river.").generate(**BRIEF, name="river")
        >>> river.run()
        'Nile'

    Attributes:
        max_tokens: Most tokens to produce.
        temperature: Divides the logits; 0 is greedy.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the smallest set of tokens with a total probability of p.
        min_p: Keep tokens at least `min_p` times as likely as the likeliest.
        presence_penalty: Taken once from the logit of each token already produced.
        frequency_penalty: Taken for each time a token was produced.
        repetition_penalty: Divides logits of tokens seen; 1 does nothing.
        stop: Strings that end the output.
        seed: Seed of this generation; by default derived from the run's seed and the node's path.
        name: Name of the node, with few distinct values.
        deadline: Seconds from now.
        on_limit: "raise" at a limit, or "close" the output by its shortest valid end.
        on_overflow: Called with an `Overflow` when the prompt leaves less than `max_tokens` of the
            window; gives a shorter chat, which the answer then continues. `trim` is one.
        model: Role of the engine, one of those that the runtime was opened with.
        logprobs: How many alternatives to report a token.
        ignore_eos: End only at a limit; for free text, without special tokens.
        describe: Describe the type, unless it is free text, to the model at the end of the last
            message: its fields, bounds, and what docstrings and `Field(description=...)` say.
        thinking: Most tokens of free reasoning before the output, part of `max_tokens` and not of
            the value; `gen.thinking` has them. 0 answers at once, the default is up to the model.
        check: Accept a type that says more than can be enforced token by token. The rest is
            checked at the end; if it does not pass, the model is shown why and answers again.
        retries: How often the model may answer again with `check`; 2 by default.
        scored: Score all options of a choice at once, whole, and take the likeliest (or draw one
            at a temperature above 0); `gen.scores` has the probabilities.
        json_style: "compact", "spaced" or "indented" JSON; see docs/structured_output.md.
        cache: Take the answer of an equal request from the response cache; docs/response_cache.md.
    """

    on_overflow: OnOverflow


class Overflow(PromptOverflow["Chat"]):
    """A complete prompt that leaves less than `max_tokens` of its model's window.

    `on_overflow` is called with one. Measure shorter chats with `fits` and return one, or return
    None to go on. If `max_tokens` is more than half of the window, half of it has to be left.

    Example:
        >>> from agentrt import Chat, Overflow, chat
        >>> def last_message(overflow: Overflow) -> Chat | None:
        ...     shorter = chat().user(overflow.chat.messages()[-1]["content"])
        ...     return shorter if overflow.fits(shorter) else None
        >>> last_message(Overflow(chat().user("Hello!").assistant("Hi!").user("Name a river.")))
        <Chat user>

    Attributes:
        chat: The prompt.
        parts: The parts with their sizes, the largest first; () if only the engine counts tokens.
        prompt_tokens: Length of the prompt; 0 if only the engine counts.
        window_tokens: Context length of the model; 0 if the engine does not report it.
        max_tokens: Most that the output may take.
        least_tokens: Length of the smallest valid output.
        count: Counts the tokens of a chat as the model would see it; None if only the engine can.
    """

    __slots__ = ()


OnOverflow = Callable[[Overflow], "Chat | Awaitable[Chat | None] | None"]
"""A function that gives a shorter chat, or None to go on with the one there is; `trim` is one.

It may be `async` and generate, such as a summary. Pass it as `generate(..., on_overflow=...)`.
"""


class Gen(Generation[T_co, "Chat"]):
    """One answer of a model, already submitted; methods of `Chat` give it.

    Await it for the value, read it along with `stream` or `partials`, and continue its chat with
    `ctx`, even before the answer exists.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def rivers() -> str:
        ...     first = chat("Be brief.").user("Name a river.").generate(max_tokens=60)
        ...     second = first.ctx.user("Name one more.").generate()
        ...     return "".join([text async for text in first.stream()]) + ", " + await second
        >>> rivers.run()
        'Nile, Rhine'
    """

    __slots__ = ()


class Each(Gen[list[T]]):
    """A list that a model writes, with items that are handed out as each one closes.

    `chat.each(...)` and `chat.calls(...)` give it. `async for item in each` gives the items while
    the rest is being written, any number of times; `await each` gives the whole list.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def rivers() -> list[str]:
        ...     found = chat().user("Name two rivers.").each(str)
        ...     return [river.upper() async for river in found]
        >>> rivers.run()
        ['NILE', 'RHINE']
    """

    __slots__ = ("items",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.items: list[T] = []

    def __aiter__(self) -> AsyncIterator[T]:
        return ItemReading(self, self._notifier(), self.items)


def add_item(each: Each[Any], item: Any) -> None:
    """Append an item that the model has closed."""
    each.items.append(item)
    each._notify()


class TaggedText(TaggedGeneration[T, "Chat"], Gen[list[str | Tagged[T]]]):
    """Free text with tags, in pieces that are handed out as they come.

    `chat.tagged(...)` gives it. `async for piece in text` gives text as it is written and each tag
    as it closes, any number of times; `await text` gives the list, neighbouring texts joined.

    Example:
        >>> from agentrt import Tagged, chat, program, tag
        >>> @program
        ... async def count() -> None:
        ...     question = chat().user("How many legs have two spiders?")
        ...     async for piece in question.tagged(tag("sum", int)):
        ...         match piece:
        ...             case Tagged(name, value):
        ...                 print(name, value + 1)
        >>> count.run()
        sum 17
    """

    __slots__ = ()


@record
class Calls:
    """Tool calls of a model that could also have given its final answer.

    `chat.step(...)` gives this or `Final`. `run` starts the calls and gives the chat for the next
    step of an agent.

    Example:
        >>> from agentrt import Calls, Final, chat, program, tool
        >>> @tool(effects="pure")
        ... def price(symbol: str) -> float:
        ...     return 98.5
        >>> @program
        ... async def turn() -> str:
        ...     match await chat().user("What is IBM worth?").step(tools=[price], final=str):
        ...         case Calls() as asked:
        ...             return f"{[call.name for call in asked.calls]}, then {asked.run()}"
        ...         case Final(answer):
        ...             return answer
        >>> turn.run()
        "['price'], then <Chat user assistant tool>"

    Attributes:
        calls: The calls in the order in which the model made them.
        ctx: The chat after its message.
        content: Text that it wrote beside the calls.
    """

    calls: tuple[ToolCall, ...]
    ctx: Chat
    content: str = ""

    def run(self) -> Chat:
        """Start every call now; the chat has their results as pending parts, in call order."""
        return self.ctx.results([call.start() for call in self.calls])


class Chat(PromptPrefix[Gen[Any]]):
    """An immutable prompt prefix: each method gives a longer chat and leaves this one as it is.

    Use a chat twice to fork it: the engine computes the common prefix once. Parts of a message may
    be pending nodes, so that a prompt is declared before all of its inputs exist.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def compare() -> list[str]:
        ...     base = chat("Be brief.")
        ...     river = base.user("Name a river.").generate()
        ...     lake = base.user("Is Lake ", base.user("Name a lake.").generate(), " in Italy?")
        ...     return [await river, await lake.generate()]
        >>> compare.run()
        ['Nile', 'yes']

    Attributes:
        label: Name of the branch, given by `fork`; it names the node that continues it.
        history: Form of earlier answers in the prompt, `template` or `append`; see `chat`.
        json_style: Style of results and other values in the prompt that are no text.
    """

    __slots__ = ()

    @overload
    def generate(self, /, **options: Unpack[GenOptions]) -> Gen[str]: ...
    @overload
    def generate(self, out: Constraint[T], /, **options: Unpack[GenOptions]) -> Gen[T]: ...
    @overload
    def generate(self, out: TypeForm[T], /, **options: Unpack[GenOptions]) -> Gen[T]: ...
    def generate(self, out: Any = str, /, **options: Unpack[GenOptions]) -> Gen[Any]:
        """An answer of the given type, submitted at once.

        Args:
            out: Any type, or `regex(...)`, `choice(...)`, `cfg(...)`, `json_schema(...)`.
            options: See `GenOptions`.

        Raises:
            ConstraintError: The type cannot be enforced; the error has a JSON pointer.
            NoRun: No run is active.
            UsageError: An option does not exist or is out of range.
            BudgetExceeded: A `limits` block has no token left.
        """
        check = bool(options.get("check"))
        chat = self._describing(out, "checked" if check else "alone", options)
        output = value_of(out, check=check, style=options.get("json_style"))
        return submit(Gen, chat, output, options, options.get("on_overflow"))

    @overload
    def each(
        self,
        item: Constraint[T],
        /,
        *,
        min_items: int = 0,
        max_items: int | None = None,
        **options: Unpack[GenOptions],
    ) -> Each[T]: ...
    @overload
    def each(
        self,
        item: TypeForm[T],
        /,
        *,
        min_items: int = 0,
        max_items: int | None = None,
        **options: Unpack[GenOptions],
    ) -> Each[T]: ...
    def each(
        self,
        item: Any,
        /,
        *,
        min_items: int = 0,
        max_items: int | None = None,
        **options: Unpack[GenOptions],
    ) -> Each[Any]:
        """A list with items that are handed out as each one closes; see `generate` for errors."""
        output = items_of(item, min_items, max_items, style=options.get("json_style"))
        return self._describing(item, "array", options)._each(output, options)

    def tagged(
        self,
        tags: Tags[T],
        /,
        *,
        min_tags: int = 0,
        max_tags: int | None = None,
        **options: Unpack[GenOptions],
    ) -> TaggedText[T]:
        """Free text with tags (see `tag`), as typed pieces; see `generate` for errors."""
        chat = with_text(self, tags.description()) if options.get("describe") else self
        output = tagged_of(tags, min_tags, max_tags)
        return submit(TaggedText, chat, output, options, options.get("on_overflow"))

    def calls(
        self,
        *tools: Tool[..., Any],
        min_calls: int = 1,
        max_calls: int = MAX_CALLS,
        **options: Unpack[GenOptions],
    ) -> Each[ToolCall]:
        """A plan: typed tool calls, handed out as each one closes; see `step` for errors."""
        return with_more_tools(self, tools)._each(calls_of(tools, min_calls, max_calls), options)

    def step(
        self,
        *,
        tools: Sequence[Tool[..., Any]],
        final: TypeForm[T],
        min_calls: int = 1,
        max_calls: int = MAX_CALLS,
        text: bool = False,
        **options: Unpack[GenOptions],
    ) -> Gen[Calls | Final[T]]:
        """Tool calls or the final answer, as the model prefers; see `generate` for errors.

        A malformed tool schema is refused here, one that cannot be held with the result. The bounds
        hold if there are calls. With `text`, free text may stand around calls, or be the answer.
        """
        style = options.get("json_style")
        output = step_of(tuple(tools), final, min_calls, max_calls, text=text, style=style)
        chat = with_more_tools(self, tools)._describing(final, "json", options)
        return submit(Gen, chat, output, options, options.get("on_overflow"))

    def messages(self) -> list[dict[str, Any]]:
        """The chat as a list of messages, for storing it.

        Raises:
            NotYetKnown: A part is still pending.
        """
        return messages_of(prompt_segments(self))

    @classmethod
    def of(cls, messages: Iterable[dict[str, Any]]) -> Self:
        """A chat of messages as `messages` gives them.

        Raises:
            UsageError: One of them is no message.
        """
        chat = cls()
        for segments in segments_of(messages):
            chat = cls(chat, segments)
        return chat

    def _each(self, output: OutputSpec, options: GenOptions) -> Each[Any]:
        return submit(Each, self, output, options, options.get("on_overflow"))

    def _describing(self, form: Any, use: OutputUse, options: GenOptions) -> Chat:
        """This chat with a description of the output type, if `options` ask for one."""
        words = description_for(form, use) if options.get("describe") else ""
        return with_text(self, words) if words else self

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return chat_schema(cls)


Chat.__pydantic_serializer__ = ChatSerializer()  # type: ignore[attr-defined]
