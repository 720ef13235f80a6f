"""What is proved plain is validated right here, and all else in a process that may die."""

import json

import pytest
from pydantic import BaseModel

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured import cfg_shape, json_schema_shape, regex_shape, shape_of
from agentrt.structured.json_schema.native import grammar_error, regex_grammar, schema_grammar
from agentrt.structured.json_schema.plain import is_plain
from agentrt.structured.json_schema.validation import VALIDATOR, GrammarValidator


def spec_of(schema):
    return ConstraintSpec("json", source=json.dumps(schema))


ENDS_THE_COMPILER = [{"const": -(2**63) + n} for n in range(3)]
PANICS = {"items": {"prefixItems": [{"enum": [-(10**18), -1e18]}]}}


class Place(BaseModel):
    name: str
    rank: int | None = None
    tags: list[str] = []


@pytest.fixture
def validator():
    validator = GrammarValidator()
    yield validator
    validator.close()


@pytest.mark.parametrize("schema", [*ENDS_THE_COMPILER, PANICS])
def test_what_ends_the_compiler_ends_no_caller(schema):
    """The first of these ended the process that declared it."""
    try:
        shape = json_schema_shape(schema)
    except ConstraintError as error:
        assert "too long" in error.message  # noqa: PT017
    else:
        assert shape.spec is not None


NOT_PLAIN = [
    {"const": 2**63},
    {"const": 1.5},
    {"enum": [1, 1]},
    {"minimum": 1e19},
    {"maxItems": 2_000},
    {"pattern": r"\W{2,}"},
    {"multipleOf": 3},
    {"allOf": [{"type": "string"}]},
    {"anyOf": [{"type": "string"}], "minLength": 2},
    {"unheard": 1},
    {"properties": {"a": {"const": {"a": 1}}}},
    {"anyOf": [{"type": "string"}] * 2_001},
    "no schema",
]


@pytest.mark.parametrize("schema", NOT_PLAIN)
def test_what_is_not_proved_is_not_plain(schema):
    assert not is_plain(spec_of(schema))


def test_grammars_and_regexes_with_operators_are_not_plain():
    for lark in ("start: /a/ & /b/", "start: ~/a/", 'start: "a"{2}', "start: %json {}"):
        assert not is_plain(ConstraintSpec("grammar", source=lark))
    for pattern in (r"\p{L}+", "[^a]", "a" * 3_000, "(a{99}){99}", "(" * 60 + ")" * 60, "(?i:a)"):
        assert not is_plain(ConstraintSpec("regex", source=pattern))


def test_types_and_simple_texts_start_no_process():
    before = VALIDATOR.starts
    for form in (Place, list[int], dict[str, bool], Place | None):
        assert shape_of(form).spec is not None
    assert regex_shape("[A-Z]{2,4}-[0-9]+").spec is not None
    assert cfg_shape('start: "a" b?\nb: "b" start').spec is not None
    assert VALIDATOR.starts == before


def test_one_process_serves_many_grammars_and_is_replaced_when_it_dies(validator):
    for factor in range(2, 6):
        schema = {"type": "integer", "multipleOf": factor}
        assert validator.complaint(spec_of(schema), schema_grammar(schema)) == ""
    assert validator.starts == 1
    bad = ENDS_THE_COMPILER[0]
    for _ in range(3):
        with pytest.raises(ConstraintError):
            validator.complaint(spec_of(bad), schema_grammar(bad))
    assert validator.starts == 1  # refused at once the second time
    pattern = r"\W+"
    regex = ConstraintSpec("regex", source=pattern)
    assert validator.complaint(regex, regex_grammar(pattern)) == ""
    assert validator.starts == 2
    assert grammar_error(regex_grammar("a+")) == ""
