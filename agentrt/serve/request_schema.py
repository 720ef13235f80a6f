"""The bodies of requests for completions, as far as they are served.

Fields that would change the answer and are not served are refused by name. Fields that only concern
the provider (accounts, storage, caches) are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic import Json as JsonText

from agentrt.serve.refusal import RequestRefused

Json = dict[str, Any]
LONGEST_TEXT_CHARS = 4_000_000
MOST_MESSAGES = 4096
MOST_TOOLS = 128
MOST_PRIORITY = 2**31 - 1
PROMPT_FORMS = ("text", "ids", "prompts")
"""Forms of the prompt of a completion; they are no part of the place of a fault."""

_LONGEST_PARAM = 200
BodyT = TypeVar("BodyT", bound=BaseModel)

ModelName = Annotated[str, Field(max_length=256)]
BodyText = Annotated[str, Field(max_length=LONGEST_TEXT_CHARS)]
Alternatives = Annotated[int, Field(strict=True, ge=0, le=20)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class StrictFields(BaseModel):
    """A body or a part of one in which every field has to be known."""

    model_config = ConfigDict(extra="forbid")


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextPart(_Open):
    """A part of a message; only text is served."""

    type: Literal["text"]
    text: BodyText


class FunctionCall(_Open):
    """A function that an assistant called.

    Attributes:
        name: Name of the tool.
        arguments: JSON in a string.
    """

    name: str
    arguments: BodyText


class ToolCallMade(_Open):
    """One call of an assistant message.

    Attributes:
        id: Id that the result names.
        function: Function with its arguments.
    """

    id: str
    function: FunctionCall


class ChatMessage(_Open):
    """One message of the chat.

    Attributes:
        role: Author; `developer` is another name of `system`.
        content: Text of the message.
        name: Name of the tool that answers.
        tool_calls: Calls of an assistant.
        tool_call_id: Call that a tool message answers.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: BodyText | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCallMade] = []
    tool_call_id: str | None = None

    @field_validator("tool_calls", mode="before")
    @classmethod
    def _none_is_no_call(cls, value: Any) -> Any:
        return value or []

    @property
    def text(self) -> str:
        """The content in one piece."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class Function(_Open):
    """A function that is offered as a tool.

    Attributes:
        name: Name of the tool.
        description: One or two sentences.
        parameters: JSON Schema of the arguments.
        strict: Whether a schema that cannot be enforced as a whole is refused.
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = ""
    strict: bool | None = False
    parameters: Json = Field(default_factory=lambda: {"type": "object", "properties": {}})


class ToolParam(_Open):
    """A tool that the model may call."""

    type: Literal["function"]
    function: Function


Messages = Annotated[list[ChatMessage], Field(min_length=1, max_length=MOST_MESSAGES)]
Tools = Annotated[list[ToolParam], Field(max_length=MOST_TOOLS)]


class NamedFunction(_Open):
    """A function by its name."""

    name: str


class NamedTool(_Open):
    """The one tool that is to be called."""

    type: Literal["function"]
    function: NamedFunction


class WantedSchema(_Open):
    """A schema for the answer."""

    schema_: Json = Field(alias="schema")


class TagStructure(_Open):
    """A tag in the older form of structural tags: JSON between two texts."""

    begin: str
    schema_: Json = Field(alias="schema")
    end: str


class TagContent(_Open):
    """The content of a tag: JSON of a schema, or text of a regex."""

    type: Literal["json_schema", "regex", "any_text"]
    json_schema: Json | None = None
    pattern: str | None = None


class Tag(_Open):
    """A tag in the newer form of structural tags."""

    begin: str
    content: TagContent
    end: str


class TriggeredTags(StrictFields):
    """Free text in which a trigger begins one of the tags."""

    type: Literal["triggered_tags"]
    triggers: list[str]
    tags: list[Tag]
    at_least_one: bool = False
    stop_after_first: Literal[False] = False


class _TaggedText(_Open):
    structures: list[TagStructure] | None = None
    triggers: list[str] = []
    format: TriggeredTags | None = None


class StructuralTag(_TaggedText):
    """Free text with tags: in `format`, or in the older `structures` and `triggers`."""

    type: Literal["structural_tag"]


class ResponseFormat(_TaggedText):
    """The form of the answer; of structural tags in their own fields."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: WantedSchema | None = None


class Structured(StrictFields):
    """Other forms of an answer, in vLLM's field: one of these."""

    json_: Json | None = Field(None, alias="json")
    choice: list[str] | None = None
    regex: str | None = None
    grammar: str | None = None
    structural_tag: JsonText[StructuralTag] | None = None


class StreamOptions(_Open):
    """Contents of a stream beside text."""

    include_usage: bool = False


class GenerationFields(StrictFields):
    """Fields of chat completions and of completions; those after `seed` are extensions.

    `priority` has vLLM's polarity: the smallest is served first.
    """

    model: ModelName
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    presence_penalty: _Number | None = None
    frequency_penalty: _Number | None = None
    stop: str | list[str] | None = None
    n: Literal[1] | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    seed: int | None = None
    top_k: int | None = None
    min_p: _Number | None = None
    repetition_penalty: _Number | None = None
    ignore_eos: bool = False
    structured_outputs: Structured | None = None
    scored: bool = False
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    priority: Annotated[int, Field(strict=True, ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = 0
    session_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    return_token_ids: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    # The provider's own: they change no answer.
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None

    @property
    def is_constrained(self) -> bool:
        """Whether a schema or grammar of the client has to be checked."""
        form = self.response_format
        has_schema = form is not None and form.type in ("json_schema", "structural_tag")
        return has_schema or bool(self.structured_outputs)

    @property
    def alternatives(self) -> int | None:
        """Alternatives of each token with log-probabilities; None without log-probabilities."""
        return None

    @property
    def limit_tokens(self) -> int | None:
        """Most tokens of the answer; None leaves it to the context length."""
        return self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the answer."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class ChatRequest(GenerationFields):
    """A request for a chat completion."""

    messages: Messages
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    tools: Tools | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = True
    logprobs: bool | None = False
    top_logprobs: Alternatives | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether a schema or grammar of the client has to be checked."""
        return super().is_constrained or bool(self.tools)

    @property
    def alternatives(self) -> int | None:
        """Alternatives of each token with log-probabilities; None without log-probabilities.

        Raises:
            RequestRefused: There are alternatives without log-probabilities.
        """
        if self.logprobs:
            return self.top_logprobs or 0
        if self.top_logprobs:
            why = "top_logprobs: they need logprobs to be true"
            raise RequestRefused(400, why, param="top_logprobs")
        return None

    @property
    def limit_tokens(self) -> int | None:
        """Most tokens of the answer, by either of its names."""
        return self.max_completion_tokens or self.max_tokens


def parsed(kind: type[BodyT], body: bytes) -> BodyT:
    """The body of a request as one of a kind.

    Raises:
        RequestRefused: The body is not JSON, or a field is not what it should be.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(error) from None


def check_model(asked: str, served: Sequence[str]) -> None:
    """Refuse a request for another model than those that are served.

    Raises:
        RequestRefused: None of them has the name.
    """
    if asked not in served:
        names = ", ".join(map(repr, served))
        verb = "is" if len(served) == 1 else "are"
        why = f"the model {asked!r} is not served here; {names} {verb}"
        raise RequestRefused(404, why, param="model", code="model_not_found")


def _refusal(error: ValidationError) -> RequestRefused:
    """The first fault that names a field, in one line; of a choice of forms, the deepest place."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    fault = max(faults, key=lambda one: len(one["loc"]))
    if fault["type"] == "json_invalid":
        return RequestRefused(
            400, f"the body is not JSON: {fault['msg'].removeprefix('Invalid JSON: ')}"
        )
    param = ".".join(str(step) for step in fault["loc"] if step not in _FORMS)[:_LONGEST_PARAM]
    if fault["type"] == "extra_forbidden":
        return RequestRefused(
            400, f"{param} is not served here", param=param, code="unsupported_value"
        )
    what = fault["msg"][:1].lower() + fault["msg"][1:]
    return RequestRefused(400, f"{param or 'the body'}: {what}", param=param)


_FORMS = frozenset(
    ("str", "constrained-str", "list[TextPart]", "list[str]", "NamedTool", *PROMPT_FORMS)
)
