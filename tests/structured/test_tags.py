"""Tags in free text: every text that the mask allows is read into its parts, however it arrives."""

from __future__ import annotations

import itertools
import random
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge, Le
from llguidance import LLMatcher, LLTokenizer
from pydantic import BaseModel

from agentrt.base.errors import ConstraintError
from agentrt.structured import bitmask_words
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.tags import TagScanner, TagShape, TagText, tags_spec
from agentrt.structured.types.shape import cfg_shape, choice_shape, json_shape_of, regex_shape

SUM = 'start: N ("+" N)*\nN: /[0-9]+/'
BYTES = LLTokenizer("byte")


class Sum(BaseModel):
    left: Annotated[int, Ge(0), Le(99)]
    text: str


def tag(name, shape, end=None, trigger=None):
    begin = f"<{name}>"
    return TagShape(name, begin, f"</{name}>" if end is None else end, trigger or begin, shape)


KINDS = {
    "model": tag("sum", json_shape_of(Sum)),
    "list": tag("list", json_shape_of(list[Sum]), end=""),
    "number": tag("n", json_shape_of(float)),
    "regex": tag("code", regex_shape("(?s:.*)")),
    "choice": tag("pick", choice_shape("yes", "yes please", "</")),
    "literal": tag("lit", json_shape_of(Literal[1, "a"])),
    "text": tag("t", json_shape_of(str)),
    "grammar": tag("g", cfg_shape(SUM)),
}


def joined(pieces):
    """Pieces with neighbouring texts joined."""
    found: list[str | TagText] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def read(tags, text, cuts=()):
    scanner = TagScanner(tags)
    bounds = [0, *cuts, len(text)]
    pieces = [p for a, b in itertools.pairwise(bounds) for p in scanner.feed_text(text[a:b])]
    return joined(pieces + scanner.end_text())


def written(pieces):
    return "".join(p if isinstance(p, str) else p.tag.begin + p.content + p.tag.end for p in pieces)


@pytest.mark.parametrize("seed", range(12))
def test_masks_allow_only_what_is_read(compiled, vocab, seed):
    """Uniform walks over the vocabulary, with every kind of tag in one text."""
    dice = random.Random(seed)
    tags = list(KINDS.values())
    state = compiled(tags_spec(tags)).start()
    row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    begins = [list(BYTES.tokenize_str(one.begin)) for one in tags]
    text = b""
    by_byte = {b[0]: i for i, b in reversed(list(enumerate(vocab.token_bytes))) if len(b) == 1}
    for _ in range(8):
        for _ in range(dice.randrange(6)):
            text += step(state, row, vocab, dice)
        if not closes(state, row, vocab):
            continue
        for letter in dice.choice(begins):  # uniform tokens would hardly ever begin a tag
            assert state.advance([by_byte[letter]]) == 1
            text += bytes([letter])
    rests = [b"", b"\x90", b"\x90\x90", b"\x90\x90\x90", b"\xa0\x90"]  # of a character
    texts = [rest + one.end.encode() for rest in rests for one in tags if one.end]
    ends = [[by_byte[letter] for letter in one] for one in texts]
    ended = next((one for one in ends if state.reaches_end(one)), None)
    ended = state.completion(1 << 20) if ended is None else ended
    assert ended is not None, text
    assert state.advance(ended) == len(ended)
    whole = (text + b"".join(vocab.token_bytes[one] for one in ended)).decode()
    pieces = read(tags, whole)
    assert written(pieces) == whole
    for piece in pieces:
        if isinstance(piece, TagText):
            piece.tag.content.parse(piece.content)
        else:
            assert not any(one.begin in piece for one in tags)
    cuts = sorted(dice.choices(range(len(whole) + 1), k=5))
    assert read(tags, whole, cuts) == pieces
    assert read(tags, whole, range(1, len(whole))) == pieces


def step(state, row, vocab, dice):
    state.fill_bitmask(row)
    allowed = [one for one in allowed_ids(row) if one not in vocab.eos_ids]
    token = dice.choice(allowed)
    assert state.advance([token]) == 1
    return vocab.token_bytes[token]


def closes(state, row, vocab):
    """Whether the text may begin a tag here."""
    return state.can_stop() and state.fork().advance([vocab.eos_ids[0]]) == 1


def test_exactly_the_texts_that_are_read():
    """Exhaustive over a small alphabet: the grammar takes what the scanner reads, and no more."""
    tags = [
        TagShape("a", "<", ">", "<", regex_shape("[x>]*")),
        TagShape("b", "(1", ")", "(", choice_shape("x", "")),
        TagShape("c", "(2", "", "(", json_shape_of(list[None])),
    ]
    spec = tags_spec(tags, 0, 2)
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(spec.source), log_level=0)
    for size in range(7):
        for letters in itertools.product("<>(1)x", repeat=size):
            text = "".join(letters)
            here = matcher.deep_copy()
            taken = here.try_consume_tokens(list(text.encode())) == size and here.is_accepting()
            assert taken == fits(tags, text), text


def fits(tags, text):
    try:
        pieces = read(tags, text)
        found = [piece for piece in pieces if isinstance(piece, TagText)]
        for piece in found:
            if piece.tag.name == "a" and set(piece.content) - set("x"):
                return False
            if piece.tag.name == "b" and piece.content not in ("x", ""):
                return False
            piece.tag.content.parse(piece.content)
    except ValueError:
        return False
    return len(found) <= 2


@pytest.mark.parametrize("kind", ["model", "list", "number", "choice", "text"])
def test_so_many_tags_can_be_closed(compiled, vocab, kind):
    """Also where a search for the shortest text would take too long."""
    constraint = compiled(tags_spec([KINDS[kind], KINDS["regex"]], 3, 4))
    assert constraint.shortest is not None
    text = b"".join(vocab.token_bytes[one] for one in constraint.shortest).decode()
    assert [piece.tag for piece in read([KINDS[kind]], text)] == [KINDS[kind]] * 3


def test_text_comes_before_its_tag_closes():
    scanner = TagScanner([KINDS["model"]])
    assert scanner.feed_text("It is <su") == ["It is "]
    assert scanner.feed_text("ch. <sum>{") == ["<such. "]
    assert scanner.in_tag
    assert scanner.feed_text('"left":1,"text":"</sum>"}</su') == []
    (found,) = scanner.feed_text("m>")
    assert isinstance(found, TagText)
    assert found.content == '{"left":1,"text":"</sum>"}'
    assert scanner.feed_text(" so <") == [" so "]
    assert scanner.end_text() == ["<"]


WRONG = [
    (([],), "0 tags"),
    (([KINDS["model"], KINDS["model"]],), "one name"),
    (([KINDS["model"]], 3, 2), "3 to 2 tags"),
    (([tag("a", json_shape_of(int), end="")],), "does not end by itself"),
    (([tag("a", regex_shape("a"), end="")],), "does not end by itself"),
    (([tag("a", cfg_shape('start: "a" "<"?'))],), "may hold the beginning of its end"),
    (([tag("a", json_shape_of(int | list[int]), end="5")],), "may hold the beginning of its end"),
    (([tag("a", json_shape_of(bool | list[int]), end="ue")],), "may hold the beginning of its"),
    (([tag("a", regex_shape("a"), trigger="b")],), "does not begin"),
    (
        (
            [
                tag("a", regex_shape("a"), trigger="<"),
                TagShape("b", "<", ">", "<", regex_shape("b")),
            ],
        ),
        "begins like tag b",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_unclear_tags_are_refused(arguments, said):
    with pytest.raises(ConstraintError, match=said):
        tags_spec(*arguments)
