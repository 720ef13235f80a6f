"""From a request's body to a generation: prompt, output and options."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import from_json

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, UsageError
from agentrt.base.segments import (
    CallMade,
    Close,
    Open,
    PromptIds,
    ResultOf,
    Role,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.program import Chat, GenOptions, OutputSpec
from agentrt.program.options import sampling_of
from agentrt.program.output import raw_text
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.serve.answer_form import about, final_schema_of, form_of
from agentrt.serve.prompt_size import check_prompt_tokens
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import (
    ChatMessage,
    ChatRequest,
    GenerationFields,
    NamedTool,
    ToolParam,
)
from agentrt.serve.request_terms import RequestTerms, terms_of
from agentrt.serve.text_schema import DEFAULT_TOKENS, TextRequest
from agentrt.structured import calls_spec, checked_schema_shape

if TYPE_CHECKING:
    from agentrt.prompt import Codec

MOST_CALLS = 32
MOST_TOOLS_CHARACTERS = 500_000

CallsIn = Literal["none", "only", "text"]
"""Where calls may stand in the answer: nowhere, alone, or among its text."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion as a generation.

    Attributes:
        chat: Prompt with its tools.
        output: Form of the text.
        options: Sampling and limits.
        calls_in: Places of tool calls in the text.
        terms: Terms of the request beside the generation.
    """

    chat: Chat
    output: OutputSpec
    options: GenOptions
    calls_in: CallsIn
    terms: RequestTerms


def completion_request(question: ChatRequest, most_tokens: int) -> CompletionRequest:
    """The generation that a request's body stands for.

    Args:
        question: Body of the request.
        most_tokens: Limit of the output where the body gives none.

    Raises:
        RequestRefused: Fields contradict each other.
        AgentrtError: The grammar of the answer is not supported.
    """
    chat = chat_of(question.messages, question.tools or ())
    calls_in, spec = _constraint(question, chat.tools)
    terms = terms_of(question)
    return CompletionRequest(
        chat,
        output_of("chat", spec, terms, keep_special=calls_in != "none"),
        _options(question, most_tokens),
        calls_in,
        terms,
    )


def text_completion_request(
    question: TextRequest, codec: Codec, window_tokens: int
) -> CompletionRequest:
    """The generation that a completion stands for: its prompt is ids, which no template sees.

    Args:
        question: Body of the request.
        codec: Codec of the model.
        window_tokens: Context length; 0 if unknown.

    Raises:
        RequestRefused: There is not one prompt, an id is none of the vocabulary, or fields
            contradict each other.
        AgentrtError: The prompt does not fit, or the grammar of the answer is not supported.
    """
    chat = prompt_chat(question.only_prompt, codec, special=question.add_special_tokens)
    check_prompt_tokens(len(codec.encode((), prompt_segments(chat)).token_ids), window_tokens)
    terms = terms_of(question)
    return CompletionRequest(
        chat,
        output_of("completion", form_of(question), terms, keep_special=False),
        _options(question, DEFAULT_TOKENS),
        "none",
        terms,
    )


def output_of(
    name: str, spec: ConstraintSpec | None, terms: RequestTerms, *, keep_special: bool
) -> OutputSpec:
    """Text as the model writes it, or the option of a choice that is scored.

    Raises:
        RequestRefused: Options are to be scored, and the form is no choice.
    """
    if not terms.is_scored:
        return raw_text(name, spec, keep_special=keep_special)
    if spec is None or spec.kind != "choice":
        why = "scored: only the options of structured_outputs.choice can be scored"
        raise RequestRefused(400, why, param="scored")
    return OutputSpec("value", spec, str, name)


def prompt_chat(prompt: str | list[int], codec: Codec, *, special: bool) -> Chat:
    """A prompt that no template has written; given ids are taken as they are.

    Args:
        prompt: Text, in which nothing becomes a special token, or ids.
        codec: Codec of the model.
        special: Whether a text gets the tokens that the tokenizer puts around one.

    Raises:
        RequestRefused: An id is none of the vocabulary.
    """
    if isinstance(prompt, str):
        return Chat(pieces=(PromptIds(codec.text_ids(prompt, special=special)),))
    check_ids(prompt, codec, "prompt")
    return Chat(pieces=(PromptIds(tuple(prompt)),))


def check_ids(ids: Sequence[int], codec: Codec, param: str) -> None:
    """Refuse ids that are none of the vocabulary.

    Raises:
        RequestRefused: The first of them, with its place.
    """
    size = codec.vocab.logits_size
    if ids and not (min(ids) >= 0 and max(ids) < size):
        at, found = next((at, one) for at, one in enumerate(ids) if not 0 <= one < size)
        why = f"{param}.{at}: {found} is no token id of this model, which has 0 to {size - 1}"
        raise RequestRefused(400, why, param=param)


def chat_of(messages: Sequence[ChatMessage], tools: Sequence[ToolParam]) -> Chat:
    """The chat of messages, with the tools that are offered.

    Raises:
        RequestRefused: The tools are too long, or arguments nest too deeply.
    """
    offered = tuple(
        ToolSchema(tool.function.name, tool.function.description or "", tool.function.parameters)
        for tool in tools
    )
    _check_tools_size(offered)
    segments = [segment for message in messages for segment in _segments(message)]
    return Chat(pieces=tuple(segments), tools=offered)


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


def _options(question: GenerationFields, most_tokens: int) -> GenOptions:
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
    if question.scored:
        given["scored"] = True
    if question.alternatives is not None:
        given["logprobs"] = max(1, question.alternatives)  # none report no log-probabilities
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
    if choice == "none":
        return "none", form_of(question)
    if not tools:
        raise RequestRefused(
            400, "tool_choice: there are no tools to choose from", param="tool_choice"
        )
    if choice == "auto" and question.ignore_eos:  # a call, which is not text, would end the answer
        return "none", form_of(question)
    most = MOST_CALLS if question.parallel_tool_calls is not False else 1
    strict = {tool.function.name for tool in question.tools or () if tool.function.strict}
    if choice == "auto":
        final = final_schema_of(question)
        if final is None:
            return "text", _calls(tools, strict, min_calls=0, max_calls=most, text=True)
        return "text", _calls(tools, strict, final_schema=final, max_calls=most)
    if form_of(question) is not None:
        raise RequestRefused(400, "a call is required, and another form too", param="tool_choice")
    if isinstance(choice, NamedTool):
        tools = tuple(tool for tool in tools if tool.name == choice.function.name)
        if not tools:
            wanted = choice.function.name
            raise RequestRefused(
                400, f"tool_choice: there is no tool {wanted!r}", param="tool_choice"
            )
        most = 1
    return "only", _calls(tools, strict, max_calls=most)


def _calls(tools: tuple[ToolSchema, ...], strict: set[str], **limits: Any) -> ConstraintSpec:
    """Calls of these tools; of a tool that is not strict, as far as its schema can be enforced."""
    with about("tools"):
        try:
            return calls_spec(tools, **limits)
        except ConstraintError:
            if len(strict) == len(tools):
                raise
        kept = (tool if tool.name in strict else _enforceable(tool) for tool in tools)
        return calls_spec(tuple(kept), **limits)


def _enforceable(tool: ToolSchema) -> ToolSchema:
    schema = checked_schema_shape(tool.parameters, is_part=True).schema
    return replace(tool, parameters=schema if isinstance(schema, dict) else {})
