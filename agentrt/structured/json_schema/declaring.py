"""The work of a declaration: from the text of a schema, regex or grammar to what stands for it.

Plain Python and the compiler, both without a bound on time that holds here: see `declaration`.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import JsonStyle
from agentrt.structured.json_schema import declaration_wire as wire
from agentrt.structured.json_schema.distinct import (
    check_distinct,
    holds_distinct,
    without_distinct,
)
from agentrt.structured.json_schema.drafts import annotates_formats, drop_formats, modernize
from agentrt.structured.json_schema.judged import checked_original, is_checkable
from agentrt.structured.json_schema.limits import (
    check_grammar,
    check_regex,
    check_schema,
    check_size,
)
from agentrt.structured.json_schema.native import grammar_error, lark_grammar, regex_grammar
from agentrt.structured.json_schema.normalize import for_generation, normalize
from agentrt.structured.json_schema.plain import is_plain, is_plain_schema
from agentrt.structured.json_schema.relax import relaxed
from agentrt.structured.json_schema.sample_texts import sample_texts
from agentrt.structured.json_schema.structure import check_structure


def is_plain_order(order: wire.Order) -> bool:
    """Whether an order is proved to take only little time and stack."""
    match order:
        case wire.Normalize(source) | wire.Specify(source):
            return is_plain_schema(source)
        case wire.Validate(spec) | wire.DrawTexts(spec):
            return is_plain(spec)
        case wire.Relax():
            return False


def answer_to(order: wire.Order) -> wire.Answer:
    """The answer to an order; a refusal if there is none."""
    try:
        return _answer(order)
    except ConstraintError as wrong:
        return wire.ConstraintRefused.from_error(wrong)
    except RecursionError:
        return wire.ConstraintRefused("schema is nested too deeply", hint="Use fewer levels")


def _answer(order: wire.Order) -> wire.Answer:
    match order:
        case wire.Normalize(source, narrow):
            schema = _read(source)
            if not narrow and annotates_formats(schema):
                drop_formats(schema)
            modernize(schema)
            check_schema(schema)
            return wire.NormalForm(_text((for_generation if narrow else normalize)(schema)))
        case wire.Specify(source, is_part, style):
            schema = _read(source)
            check_schema(schema)
            return wire.Specified(_spec(schema, is_part=is_part, style=style))
        case wire.Relax(source, original, is_part):
            judged = checked_original(_read(original))
            spec_of = functools.partial(_spec, is_part=is_part)
            enforced = relaxed(_read(source), spec_of, is_checkable)
            return wire.RelaxedSpec(enforced.spec, _text(enforced.schema), _text(judged))
        case wire.Validate(spec):
            return wire.Complaint(_complaint(spec))
        case wire.DrawTexts(spec):
            return wire.Texts(tuple(sample_texts(spec)))


def _spec(schema: Any, *, is_part: bool = False, style: JsonStyle = "compact") -> ConstraintSpec:
    """The spec of JSON that fits a schema in normal form."""
    grammatical = schema
    if not is_part and holds_distinct(schema):
        check_distinct(schema)
        grammatical = without_distinct(schema)
    check_structure(grammatical)
    return ConstraintSpec("json", source=_text(schema), style=style)


def _complaint(spec: ConstraintSpec) -> str:
    if spec.kind == "regex":
        check_regex(spec.source)
        return grammar_error(regex_grammar(spec.source))
    check_grammar(spec.source)
    return grammar_error(lark_grammar(spec.source))


def _read(source: str) -> Any:
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as wrong:
        raise ConstraintError(
            f"schema is no JSON value: {wrong}", hint="Give a JSON Schema as a dict"
        ) from None


def _text(schema: Any) -> str:
    source = canonical_json.dumps(schema)
    check_size(source, "schema as enforced")
    return source
