"""From a request's body to a generation: prompt, output and options."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pydantic_core import from_json

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, UsageError
from agentrt.base.segments import (
    CallMade,
    Close,
    Open,
    ResultOf,
    Role,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.program import Chat, GenOptions, OutputSpec
from agentrt.program.options import sampling_of
from agentrt.program.output import raw_text
from agentrt.serve.refusal import RequestRefused, refusal_of
from agentrt.serve.request_schema import (
    ChatMessage,
    ChatRequest,
    NamedTool,
    ResponseFormat,
    Structured,
)
from agentrt.structured import calls_spec, cfg_shape, choice_shape, json_schema_shape, regex_shape

MOST_CALLS = 32
MOST_TOOLS_CHARACTERS = 500_000

CallsIn = Literal["none", "only", "text"]
"""Where calls may stand in the answer: nowhere, alone, or among its text."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A chat completion as a generation.

    Attributes:
        chat: Prompt with its tools.
        output: Form of the text.
        options: Sampling and limits.
        calls_in: Places of tool calls in the text.
        cache_salt: Salt that the client gave, or "".
        user: User that the request names, or "".
        stream: Whether the answer is streamed.
        wants_usage: Whether a stream ends with its usage.
    """

    chat: Chat
    output: OutputSpec
    options: GenOptions
    calls_in: CallsIn
    cache_salt: str
    user: str
    stream: bool
    wants_usage: bool


def completion_request(question: ChatRequest, most_tokens: int) -> CompletionRequest:
    """The generation that a request's body stands for.

    Args:
        question: Body of the request.
        most_tokens: Limit of the output where the body gives none.

    Raises:
        RequestRefused: Fields contradict each other.
        AgentrtError: The grammar of the answer is not supported.
    """
    tools = tuple(
        ToolSchema(tool.function.name, tool.function.description or "", tool.function.parameters)
        for tool in question.tools or ()
    )
    _check_tools_size(tools)
    segments = [segment for message in question.messages for segment in _segments(message)]
    calls_in, spec = _constraint(question, tools)
    return CompletionRequest(
        Chat(pieces=tuple(segments), tools=tools),
        raw_text("chat", spec, keep_special=calls_in != "none"),
        _options(question, most_tokens),
        calls_in,
        cache_salt=question.cache_salt or "",
        user=question.user if isinstance(question.user, str) else "",
        stream=bool(question.stream),
        wants_usage=question.stream_options is not None and question.stream_options.include_usage,
    )


def _check_arguments(text: str) -> None:
    """Refuse arguments that nest too deeply to be read; others need not be JSON, as models write.

    Raises:
        RequestRefused: The arguments nest too deeply.
    """
    try:
        from_json(text)
    except ValueError as error:
        if "recursion" in str(error):
            what = "messages: the arguments of a call nest too deeply"
            raise RequestRefused(400, what, param="messages") from None


def _check_tools_size(tools: tuple[ToolSchema, ...]) -> None:
    """Refuse tools that are no JSON, or too long for a template, which renders them several times.

    A number such as 1e999 is infinite once it is read, and cannot be written again.
    """
    try:
        schemas = [json.dumps(one.parameters, allow_nan=False) for one in tools]
    except ValueError:
        why = "tools: a number of the parameters is NaN or infinite"
        raise RequestRefused(400, why, param="tools") from None
    size = sum(map(len, schemas)) + sum(len(one.description) for one in tools)
    if size > MOST_TOOLS_CHARACTERS:
        why = f"tools: {size} characters of JSON, at most {MOST_TOOLS_CHARACTERS} are taken"
        raise RequestRefused(400, why, param="tools")


def _segments(message: ChatMessage) -> list[Segment]:
    role: Role = "system" if message.role == "developer" else message.role
    found: list[Segment] = [Open(role)]
    if role == "tool":
        found.append(ResultOf(message.tool_call_id or "", message.name or ""))
    if message.text:
        found.append(Text(message.text))
    for call in message.tool_calls:
        _check_arguments(call.function.arguments)
    calls = [
        CallMade(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls
    ]
    return [*found, *calls, Close()]


_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "seed"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
)
"""Fields of a request that are options of a generation under the same name."""


def _options(question: ChatRequest, most_tokens: int) -> GenOptions:
    """Sampling and limits: by default the API draws at temperature 1 and from a new seed."""
    given: GenOptions = {
        "max_tokens": question.limit_tokens or most_tokens,
        "stop": question.stops,
        "ignore_eos": question.ignore_eos,
        "temperature": 1.0,
        "seed": secrets.randbits(31),
    }
    asked = {name: value for name in _SAMPLING if (value := getattr(question, name)) is not None}
    given.update(asked)  # type: ignore[typeddict-item]
    try:
        sampling_of(given, 0)
    except UsageError as error:
        raise RequestRefused(400, str(error), param=error.message.partition("=")[0]) from None
    return given


def _constraint(
    question: ChatRequest, tools: tuple[ToolSchema, ...]
) -> tuple[CallsIn, ConstraintSpec | None]:
    """Places of calls in the answer, and its form."""
    choice = question.tool_choice or ("auto" if tools else "none")
    form = _form(question)
    if choice == "none":
        return "none", form
    if not tools:
        raise RequestRefused(
            400, "tool_choice: there are no tools to choose from", param="tool_choice"
        )
    if choice == "auto":
        return ("text", None) if form is None else ("none", form)
    if form is not None:
        raise RequestRefused(400, "a call is required, and another form too", param="tool_choice")
    most = MOST_CALLS if question.parallel_tool_calls is not False else 1
    if isinstance(choice, NamedTool):
        tools = tuple(tool for tool in tools if tool.name == choice.function.name)
        if not tools:
            wanted = choice.function.name
            raise RequestRefused(
                400, f"tool_choice: there is no tool {wanted!r}", param="tool_choice"
            )
        most = 1
    with _about("tools"):
        return "only", calls_spec(tools, max_calls=most)


@contextmanager
def _about(param: str) -> Iterator[None]:
    """Refuse with the name of the field that cannot be enforced."""
    try:
        yield
    except ConstraintError as error:
        raise refusal_of(error, param=param) from None


def _form(question: ChatRequest) -> ConstraintSpec | None:
    """The form of the answer, by either of the fields that give it."""
    wanted, other = question.response_format, question.structured_outputs
    if wanted is not None and wanted.type != "text":
        with _about("response_format"):
            return _json_form(wanted)
    if other is None:
        return None
    with _about("structured_outputs"):
        return _structured_form(other)


def _json_form(wanted: ResponseFormat) -> ConstraintSpec | None:
    if wanted.type == "json_object":
        return json_schema_shape({"type": "object"}).spec
    if wanted.json_schema is None:
        what = "response_format.json_schema"
        raise RequestRefused(400, f"{what}: field required", param=what)
    return json_schema_shape(wanted.json_schema.schema_).spec


def _structured_form(other: Structured) -> ConstraintSpec | None:
    if other.choice is not None:
        return choice_shape(*other.choice).spec
    if other.regex is not None:
        return regex_shape(other.regex).spec
    if other.grammar is not None:
        return cfg_shape(other.grammar).spec
    if other.json_ is not None:
        return json_schema_shape(other.json_).spec
    raise RequestRefused(400, "structured_outputs: it asks for nothing", param="structured_outputs")
