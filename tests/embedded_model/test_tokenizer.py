"""The shipped tokenizer: any text round-trips, digits and capitals stand alone."""

import re

import pytest
from corpus.example import EMBEDDED
from corpus.mix import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

TOKENIZER = Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))
NAMES = ("begin", "end", "system", "user", "assistant", "tool", "call", "/call", "pad")
MARKERS = tuple(f"<|{name}|>" for name in NAMES)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_round_trips_any_text(text: str):
    """Bytes in, bytes out."""
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


def test_round_trips_transcripts():
    """The corpus itself survives."""
    for index in range(60):
        text = draw(5, index).text
        ids = TOKENIZER.encode(text, add_special_tokens=False).ids
        assert TOKENIZER.decode(ids, skip_special_tokens=False) == text


def test_merges_nothing_over_digits_and_capitals():
    """No token holds a digit or a capital letter beside anything else."""
    tokens = [token for token in TOKENIZER.get_vocab() if token not in MARKERS]
    assert not [t for t in tokens if len(t) > 1 and re.search(r"[0-9A-Z]", t)]
    assert TOKENIZER.encode("GOOG 2004-08", add_special_tokens=False).tokens == [
        "G", "O", "O", "G", "Ġ", "2", "0", "0", "4", "-", "0", "8",
    ]  # fmt: skip


@pytest.mark.parametrize("marker", MARKERS)
def test_marker_is_one_token(marker: str):
    """Each marker of the wire format is one special token."""
    assert len(TOKENIZER.encode(marker, add_special_tokens=False).ids) == 1
