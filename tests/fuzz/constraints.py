"""Random constraints: JSON Schemas, regexes and grammars, from plain to hostile."""

import json
from copy import deepcopy
from random import Random
from typing import Any

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
PATTERNS = (
    *(
        "^[a-c]{1,3}$",
        "a",
        "^(x|yy)*$",
        r"^\d{4}-\d{2}$",
        "(",
        "(?=a)",
        ".*a.{18}",
        r"^\p{L}{200}$",
    ),
    *(
        "a{" + "9" * 5_000 + "}",
        "a{²}",
        "(a{300}){300}",
        "(" * 300 + ")" * 300,
        "\x00",
        "[^\\s\\S]",
    ),
    *("(a|b|ab){1,5000}", "(a*)*b", r"\b", "é{2}", "[" * 50, "a{3,1}", "(?i)k"),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**63, 2**64, -(2**64), 10**400, 1.5, -0.0, 1e-300),
    *(
        1e308,
        float("nan"),
        float("inf"),
        -float("inf"),
        "",
        "x",
        "\ud800",
        "\x00",
        "²",
        "9" * 5_000,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        ["x", 1],
        {"type": "string"},
        {"$ref": "#"},
        "#",
        "#/$defs/a",
        "http://x",
    ),
)
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
KEYWORDS = (
    *(*COUNTS, *BOUNDS, "type", "properties", "required", "items", "prefixItems", "enum", "const"),
    *("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref", "$defs"),
    *("pattern", "format", "uniqueItems", "not", "if", "then", "else", "contains", "propertyNames"),
    *("dependentRequired", "unevaluatedProperties", "$id", "$schema", "$dynamicRef", "default"),
)


def random_schema(dice: Random) -> Any:
    """A schema: plain, of a hostile family, or plain with a few parts spoiled."""
    if dice.random() < 0.15:
        return dice.choice(FAMILIES)(dice)
    schema = {"$defs": {name: plain(dice, 2) for name in "ab"}, **plain(dice, 3)}
    for _ in range(dice.choice((0, 0, 1, 1, 2, 4))):
        spoil(dice, schema)
    return schema


def plain(dice: Random, depth: int) -> dict[str, Any]:
    """A schema that is mostly supported."""
    kind = dice.randrange(9 if depth else 5)
    match kind:
        case 0:
            low = dice.randint(-99, 99)
            return {"type": "integer", "minimum": low, "maximum": low + dice.randint(0, 999)}
        case 1:
            return {"type": "string", "maxLength": dice.randint(0, 6)}
        case 2:
            return {"type": "string", "pattern": dice.choice(PATTERNS[:5])}
        case 3:
            return {"enum": dice.sample([1, "x", None, True, 2.5, "é", [], {"a": 1}], 3)}
        case 4:
            return {"$ref": f"#/$defs/{dice.choice('ab')}"}
        case 5:
            most = dice.randint(0, 3)
            return {"type": "array", "items": plain(dice, depth - 1), "maxItems": most}
        case 6:
            keyword = dice.choice(("anyOf", "anyOf", "oneOf", "allOf"))
            return {keyword: [plain(dice, depth - 1) for _ in range(dice.randint(1, 3))]}
        case 7:
            items = [plain(dice, depth - 1) for _ in range(2)]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": 2}
    names = dice.sample(("a", "b", "long name", "é", "0"), dice.randint(0, 4))
    return {
        "type": "object",
        "properties": {name: plain(dice, depth - 1) for name in names},
        "required": dice.sample(names, dice.randint(0, len(names))),
        "additionalProperties": False,
    }


def spoil(dice: Random, schema: dict[str, Any]) -> None:
    """Put an odd value under some keyword, somewhere in a schema."""
    here: Any = schema
    while isinstance(here, dict | list) and here and dice.random() < 0.7:
        key = dice.choice(list(here)) if isinstance(here, dict) else dice.randrange(len(here))
        if not isinstance(here[key], dict | list):
            break
        here = here[key]
    if isinstance(here, list):
        here.append(deepcopy(dice.choice(ODD)))
    elif isinstance(here, dict):
        keyword = dice.choice(KEYWORDS)
        values = PATTERNS if keyword == "pattern" else ODD
        here[keyword] = deepcopy(dice.choice(values))


def chain(dice: Random) -> Any:
    """References of which each leads to the next, and the last perhaps to the first."""
    count = dice.choice((3, 40, 90, 300, 2_000))
    where = dice.choice(("$defs", "definitions", "x"))
    last = dice.choice(({"type": "null"}, {"$ref": f"#/{where}/a0"}))
    links: dict[str, Any] = {f"a{count}": last}
    for at in range(count):
        ref = {"$ref": f"#/{where}/a{at + 1}"}
        links[f"a{at}"] = dice.choice((ref, {"type": "array", "items": ref}, {"anyOf": [ref]}))
    return {where: links, "$ref": f"#/{where}/a0"}


def doubling(dice: Random) -> Any:
    """Each level stands twice in the one above it."""
    schema: Any = {"type": "integer"}
    for at in range(dice.choice((3, 8, 14))):
        keyword = dice.choice(("anyOf", "allOf", "oneOf", "prefixItems"))
        schema = {keyword: [schema, {"type": "object", "properties": {str(at): schema}}]}
    return schema


def nested(dice: Random) -> Any:
    """Levels that no text of a real schema has."""
    schema: Any = {}
    for _ in range(dice.choice((20, 63, 70, 200))):
        schema = {dice.choice(("items", "not", "additionalProperties")): schema}
    return schema


def wide(dice: Random) -> Any:
    """Very many values, fields or branches."""
    count = dice.choice((50, 3_000, 25_000))
    match dice.randrange(4):
        case 0:
            return {"enum": [f"value {at} {dice.random()}" for at in range(count)]}
        case 1:
            return {"type": "object", "properties": {f"k{at}": {} for at in range(count)}}
        case 2:
            return {"anyOf": [{"const": at} for at in range(count // 5)]}
    return {"type": "string", "minLength": count, "maxLength": count * 2}


def trees(dice: Random) -> Any:
    """Types that hold themselves, some of which no value fits."""
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    endless = {"allOf": [{"$ref": "#"}], "type": "object", "properties": {"a": {"$ref": "#"}}}
    bare = {"$ref": "#"}
    needs = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    return dice.choice((node, endless, bare, needs, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}))


FAMILIES = (chain, doubling, nested, wide, trees)
_ATOMS = (
    "a",
    "[ab]",
    ".",
    r"\d",
    r"\w{9}",
    "(a|b)",
    "(?:x|xy)",
    "^",
    "$",
    "é",
    r"\x",
    "(?!a)",
    "|",
)
_COUNTS = (
    "",
    "",
    "*",
    "+",
    "?",
    "{2}",
    "{0,300}",
    "{3,1}",
    "{99999}",
    "{,5}",
    "{" + "9" * 4_500 + "}",
)


def random_regex(dice: Random) -> str:
    """A regex of a few atoms and counts, or a hostile one."""
    if dice.random() < 0.2:
        return dice.choice(PATTERNS)
    pieces = (dice.choice(_ATOMS) + dice.choice(_COUNTS) for _ in range(dice.randint(1, 6)))
    return "".join(pieces)


_TERMS = (
    *(
        '"a"',
        '"b"i',
        "/[ab]+/",
        "/a.{18}/",
        "s",
        "t",
        "u",
        "(s | t)",
        "s?",
        "t*",
        "u{2,9}",
        "t{999}",
    ),
    *('%json {"type":"object"}', '%json {"$ref":"#"}', "%regex {}", "~/a/", "/(a|b){0,300}/", "|"),
    *(
        '"\\ud800"',
        '"' + "x" * 2_000 + '"',
        "<tool>",
        "%ignore /a/",
        "((s))",
        "t{" + "9" * 4_500 + "}",
    ),
)


def random_grammar(dice: Random) -> str:
    """A grammar of three rules that refer to each other."""
    if dice.random() < 0.1:
        count = dice.choice((60, 240, 2_000))
        links = "\n".join(f"a{at}: a{at + 1}" for at in range(count))
        return f'start: a0\n{links}\na{count}: "x"\n'
    rules = (f"{name}: {' '.join(dice.choices(_TERMS, k=dice.randint(1, 4)))}" for name in "stu")
    return "\n".join(("start: s t", *rules))


def text_of(schema: Any) -> str:
    """A schema as a line of Python, short enough to be read."""
    return json.dumps(schema)[:2_000]
