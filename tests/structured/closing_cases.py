"""Random constraints of every kind, and the true minimum of their tokens by exhaustive search."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.base.vocabulary import Vocab
from agentrt.structured import (
    Budgeted,
    CompiledConstraint,
    Shape,
    bitmask_words,
    calls_spec,
    cfg_shape,
    choice_shape,
    json_schema_shape,
    regex_shape,
)
from agentrt.structured.json_schema.native import JSON_FORMS
from agentrt.structured.matcher import allowed_ids

KINDS = ("regex", "lark", "json", "choice", "calls", "mixed")
FRAME = CallFrame(before="<c>", middle=":", after="</c>", special=("<c>", "</c>"))
_SPECIAL = ("<end>", "<c>", "</c>")
_CHARACTERS = '{}[]:,"\\truefalsn0123456789ab xy-.'
_MERGES = (
    *('"}', '"a', '{"', '":', '{"a', '{"a"', '{"a":', '":"', '"}]', "[{", "}]", "},", ',"', "[]"),
    *("tr", "ue", "true", "fa", "ls", "false", "nu", "ll", "null", "ab", "aba", "abab", "aa"),
    *("aaa", "aaaa", "10", "00", "100", "000", "xy", "xyxy", "bb", "abx", "a,", '""', '"",', "0,"),
    *('"b', '"b"', '"b":', "b,", " a", "--", "0}", "1}", "]}", "aab", "bba", "x."),
)


def tiny_vocabulary() -> Vocab:
    """Few characters, and tokens that join them so that the shortest text may not be the fewest."""
    pieces = [*dict.fromkeys(_CHARACTERS)]
    merges: list[tuple[str, str]] = []
    for text in sorted(_MERGES, key=len):
        left = next(text[:at] for at in range(len(text) - 1, 0, -1) if text[:at] in pieces)
        while left != text:
            more = next(
                text[len(left) : at]
                for at in range(len(text), len(left), -1)
                if text[len(left) : at] in pieces
            )
            merges.append((left, more))
            left += more
            if left not in pieces:
                pieces.append(left)
    known = {_shown(piece): at for at, piece in enumerate(pieces)}
    shown = [(_shown(left), _shown(right)) for left, right in dict.fromkeys(merges)]
    tokenizer = Tokenizer(models.BPE(known, shown))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL))
    source = tokenizer.to_str()
    special = {text: len(pieces) + at for at, text in enumerate(_SPECIAL)}
    assert all(tokenizer.token_to_id(text) == at for text, at in special.items())
    return Vocab(
        token_bytes=(*(piece.encode() for piece in pieces), *(b"" for _ in _SPECIAL)),
        special_ids=special,
        eos_ids=(special["<end>"],),
        tokenizer_json=source,
        logits_size=len(pieces) + len(_SPECIAL),
        fingerprint=hashlib.sha256(source.encode()).hexdigest(),
    )


def _shown(piece: str) -> str:
    return piece.replace(" ", "\u0120")


def random_shape(kind: str, dice: random.Random) -> Shape:
    """A random constraint.

    Raises:
        ConstraintError: It is refused where it is declared.
    """
    return _MAKERS[kind](dice)


def _regex(dice: random.Random) -> Shape:
    return regex_shape(_pattern(dice, 3))


def _pattern(dice: random.Random, depth: int) -> str:
    match dice.randrange(7 if depth else 2):
        case 0:
            return "".join(dice.choices("abxy01", k=dice.randint(1, 3)))
        case 1:
            return dice.choice(["[ab]", "[0-9]", "[^a]", r"\d", r"\w", "[xy.]", "."])
        case 2:
            return "".join(_pattern(dice, depth - 1) for _ in range(2))
        case 3:
            return f"(?:{_pattern(dice, depth - 1)}|{_pattern(dice, depth - 1)})"
        case 4:
            return f"(?:{_pattern(dice, depth - 1)}){dice.choice('*+?')}"
        case 5:
            low = dice.randint(0, 6)
            return f"(?:{_pattern(dice, depth - 1)}){{{low},{low + dice.randint(0, 9)}}}"
        case _:
            return f"(?:{_pattern(dice, depth - 1)}){{{dice.randint(1, 5)},}}"


def _lark(dice: random.Random) -> Shape:
    names = ["start", *(f"r{n}" for n in range(dice.randint(1, 4)))]
    lines = []
    for at, name in enumerate(names):
        options = [_rule(dice, names, 2) for _ in range(dice.randint(1, 3))]
        if at:
            options.append(_terminal(dice))  # each rule has an end
        dice.shuffle(options)
        lines.append(f"{name}: {' | '.join(options)}")
    lines.append(f"WORD: {_terminal(dice)} {_terminal(dice)}?")
    return cfg_shape("\n".join(lines))


def _rule(dice: random.Random, names: list[str], depth: int) -> str:
    match dice.randrange(7 if depth else 3):
        case 0:
            return dice.choice(names[1:])
        case 1:
            return _terminal(dice)
        case 2:
            return "WORD"
        case 3 | 4:
            parts = (_rule(dice, names, depth - 1) for _ in range(dice.randint(2, 3)))
            return f" {dice.choice([_text(dice), ''])} ".join(parts)
        case 5:
            return f"({_rule(dice, names, depth - 1)}){dice.choice('?*+')}"
        case _:
            low = dice.randint(1, 4)
            return f"({_rule(dice, names, depth - 1)}){{{low},{low + dice.randint(0, 3)}}}"


def _text(dice: random.Random) -> str:
    return json.dumps("".join(dice.choices("{}[]:,abxy01", k=dice.randint(1, 3))))


def _terminal(dice: random.Random) -> str:
    return _text(dice) if dice.random() < 0.5 else f"/{_pattern(dice, 1)}/"


def random_schema(dice: random.Random, depth: int = 2) -> dict[str, Any]:
    """A random JSON Schema, by keywords that the exact grammar knows and others."""
    match dice.randrange(13 if depth else 8):
        case 0:
            return {"type": "boolean"}
        case 1:
            low = dice.choice([0, 7, 10, 100, 995, -3, 10**17])
            return {"type": "integer", "minimum": low, "maximum": low + dice.choice([0, 3, 500])}
        case 2:
            return {"type": "number", "exclusiveMinimum": dice.choice([0, 0.5, 99, 1000.25])}
        case 3:
            low = dice.randint(0, 9)
            return {"type": "string", "minLength": low, "maxLength": low + dice.randint(0, 5)}
        case 4:
            return {"type": "string", "pattern": f"^(?:{_pattern(dice, 2)})$"}
        case 5:
            texts = ["".join(dice.choices("abxy", k=dice.randint(0, 6))) for _ in range(3)]
            return {"enum": [*texts, dice.choice([True, None, 100, 7])]}
        case 6:
            return {"type": "integer", "multipleOf": dice.choice([7, 25]), "minimum": 8}
        case 7:
            return {"type": dice.choice(["string", "integer", "null", "object"])}
        case 8 | 9 | 10:
            names = dice.sample(["a", "b", "ab", "xy"], k=dice.randint(1, 3))
            return {
                "type": "object",
                "properties": {name: random_schema(dice, depth - 1) for name in names},
                "required": names[: dice.randint(0, len(names))],
                **({"additionalProperties": False} if dice.random() < 0.6 else {}),
                **({"minProperties": len(names)} if dice.random() < 0.1 else {}),
            }
        case 11:
            low = dice.randint(0, 4)
            items = random_schema(dice, depth - 1)
            return {"type": "array", "items": items, "minItems": low, "maxItems": low + 2}
        case _:
            return {"anyOf": [random_schema(dice, depth - 1) for _ in range(2)]}


def _json(dice: random.Random) -> Shape:
    schema = random_schema(dice)
    if dice.random() < 0.2:
        link = {"anyOf": [{"$ref": "#/$defs/n"}, random_schema(dice, 1)]}
        node = {"type": "object", "properties": {"a": link}, "required": ["a"]}
        schema = {"$defs": {"n": node}, "$ref": "#/$defs/n"}
    return json_schema_shape(schema)


def _choice(dice: random.Random) -> Shape:
    sizes = [dice.randint(1, 12) for _ in range(dice.randint(1, 6))]
    return choice_shape(*{"".join(dice.choices("ab01xy -", k=size)) for size in sizes})


def _calls(dice: random.Random) -> Shape:
    tools = [
        ToolSchema(name, "", {"type": "object", "properties": {"a": random_schema(dice, 1)}})
        for name in ("ab", "x")[: dice.randint(1, 2)]
    ]
    fewest = dice.randint(0, 2)
    spec = calls_spec(tools, None, fewest, fewest + 2)
    return dataclasses.replace(regex_shape("a"), spec=spec)


def _mixed(dice: random.Random) -> Shape:
    inner = json.dumps({**random_schema(dice, 1), "x-guidance": JSON_FORMS["compact"]})
    free = dice.choice([r"/[^\[]*/", r"/[^\[]{2,9}/", r"/[^\[]{1,400}/", '("ab" | "xy")+'])
    return cfg_shape(f'start: {free} ("[[" %json {inner} "]]" {free})+')


_MAKERS: dict[str, Callable[[random.Random], Shape]] = {
    "regex": _regex,
    "lark": _lark,
    "json": _json,
    "choice": _choice,
    "calls": _calls,
    "mixed": _mixed,
}


class SearchTooLong(Exception):
    """The exhaustive search has met too many texts."""


def true_min_tokens(compiled: CompiledConstraint, vocab: Vocab, most_texts: int) -> int:
    """Minimum number of tokens of any complete output, by trying each token everywhere.

    A mask may hold one spelling of a forced text; a completion may use any, so masks are not
    asked. Texts are visited by their number of tokens; two spellings of one text are one state.

    Raises:
        SearchTooLong: More texts than `most_texts` come before the first complete one.
    """
    layer = {(): compiled.start()}
    seen: set[tuple[Any, ...]] = {()}
    tokens = 0
    while layer:
        if any(state.can_stop() for state in layer.values()):
            return tokens
        after = {}
        for text, state in layer.items():
            for token in range(vocab.size):
                longer = _joined(text, token, vocab)
                if longer in seen or token in vocab.eos_ids or not state.advance([token]):
                    continue
                seen.add(longer)
                if len(seen) > most_texts:
                    raise SearchTooLong
                after[longer] = state.fork()
                state.rollback(1)
        layer, tokens = after, tokens + 1
    raise AssertionError("no text is complete")


def _joined(text: tuple[Any, ...], token: int, vocab: Vocab) -> tuple[Any, ...]:
    """A text as bytes and ids of special tokens, one token longer."""
    piece = vocab.token_bytes[token]
    if not piece:
        return (*text, token)
    if text and isinstance(text[-1], bytes):
        return (*text[:-1], text[-1] + piece)
    return (*text, piece)


def drawn(
    compiled: CompiledConstraint, most: int, dice: random.Random, vocab: Vocab
) -> list[int] | None:
    """An output within a budget, each token drawn evenly; None if it does not close."""
    state = Budgeted.start(compiled, most)
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    out: list[int] = []
    while len(out) < most:
        state.fill_bitmask(row)
        token = dice.choice(allowed_ids(row))
        if state.advance([token]) == 0:
            token = state.fallback()
            if state.advance([token]) == 0:
                return None
        if token in compiled.eos_ids:
            break
        out.append(token)
    return out if state.can_stop() else None


def shapes(kind: str, seed: int, count: int) -> Iterator[Shape]:
    """So many random constraints of a kind that their declaration does not refuse."""
    dice = random.Random(seed)
    while count:
        try:
            shape = random_shape(kind, dice)
        except ConstraintError:
            continue
        count -= 1
        yield shape
