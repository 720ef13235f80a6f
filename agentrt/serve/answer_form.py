"""The form that a request gives its answer: JSON, a choice, a regex, a grammar, or tagged text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.serve.refusal import RequestRefused, refusal_of
from agentrt.serve.request_schema import (
    ChatRequest,
    GenerationFields,
    ResponseFormat,
    StructuralTag,
    Structured,
    Tag,
)
from agentrt.structured import cfg_shape, choice_shape, json_schema_shape, regex_shape
from agentrt.structured.tags import TagShape, tags_spec
from agentrt.structured.types.shape import Shape

_ANY_OBJECT = {"type": "object"}


def form_of(question: GenerationFields) -> ConstraintSpec | None:
    """The form of the answer, by either of the fields that give it.

    Raises:
        RequestRefused: The form cannot be enforced, or is empty.
    """
    wanted, other = question.response_format, question.structured_outputs
    if wanted is not None and wanted.type != "text":
        with about("response_format"):
            if wanted.type == "structural_tag":
                return _tagged(wanted, "response_format")
            return json_schema_shape(_schema_of(wanted)).spec
    if other is None:
        return None
    with about("structured_outputs"):
        return _structured_form(other)


def final_schema_of(question: ChatRequest) -> dict[str, Any] | None:
    """The schema of an answer that may come in place of calls; None for free text.

    Raises:
        RequestRefused: The form is none of JSON.
    """
    wanted, other = question.response_format, question.structured_outputs
    if wanted is not None and wanted.type in ("json_object", "json_schema"):
        return _schema_of(wanted)
    if other is not None and other.json_ is not None:
        return other.json_
    if form_of(question) is None:
        return None
    field = "response_format" if other is None else "structured_outputs"
    why = f"{field}: beside tools an answer may be text or JSON; set tool_choice to none for others"
    raise RequestRefused(400, why, param=field)


@contextmanager
def about(param: str) -> Iterator[None]:
    """Refuse with the name of the field that cannot be enforced."""
    try:
        yield
    except ConstraintError as error:
        raise refusal_of(error, param=param) from None


def _schema_of(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.type == "json_object":
        return _ANY_OBJECT
    if wanted.json_schema is None:
        what = "response_format.json_schema"
        raise RequestRefused(400, f"{what}: field required", param=what)
    return wanted.json_schema.schema_


def _structured_form(other: Structured) -> ConstraintSpec | None:
    if other.choice is not None:
        return choice_shape(*other.choice).spec
    if other.regex is not None:
        return regex_shape(other.regex).spec
    if other.grammar is not None:
        return cfg_shape(other.grammar).spec
    if other.json_ is not None:
        return json_schema_shape(other.json_).spec
    if other.structural_tag is not None:
        return _tagged(other.structural_tag, "structured_outputs.structural_tag")
    raise RequestRefused(400, "structured_outputs: it asks for nothing", param="structured_outputs")


def _tagged(wanted: ResponseFormat | StructuralTag, field: str) -> ConstraintSpec:
    """Free text with tags, in either form of structural tags."""
    if wanted.format is not None:
        triggers, fewest = wanted.format.triggers, int(wanted.format.at_least_one)
        tags = [(tag.begin, _content(tag, field), tag.end) for tag in wanted.format.tags]
    elif wanted.structures is not None:
        triggers, fewest = wanted.triggers, 0
        tags = [(one.begin, json_schema_shape(one.schema_), one.end) for one in wanted.structures]
    else:
        raise RequestRefused(400, f"{field}: structures or format required", param=field)
    shapes = [
        TagShape(f"{at}", begin, end, _trigger_of(begin, triggers), content)
        for at, (begin, content, end) in enumerate(tags)
    ]
    return tags_spec(shapes, fewest)


def _trigger_of(begin: str, triggers: list[str]) -> str:
    """The trigger of a tag; "" if none begins it, which is refused with the tag."""
    return next((trigger for trigger in triggers if begin.startswith(trigger)), "")


def _content(tag: Tag, field: str) -> Shape:
    content = tag.content
    if content.type == "json_schema" and content.json_schema is not None:
        return json_schema_shape(content.json_schema)
    if content.type == "regex" and content.pattern is not None:
        return regex_shape(content.pattern)
    if content.type == "any_text":
        return regex_shape("(?s:.*)")
    missing = "json_schema" if content.type == "json_schema" else "pattern"
    raise RequestRefused(400, f"{field}: a tag has no {missing}", param=field)
