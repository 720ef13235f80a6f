"""The written `tokenizer.json` of single bytes is the one that the package `tokenizers` reads."""

import json

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentrt.prompt.byte_vocabulary import END_ID, END_TEXT, byte_vocabulary

TOKENIZER = Tokenizer.from_str(byte_vocabulary().tokenizer_json)


@given(st.text())
def test_ids_are_bytes(text: str) -> None:
    """`END_TEXT` in a text is the only special token, as in any tokenizer."""
    parts = text.split(END_TEXT)
    expected = [byte for part in parts for byte in (*part.encode(), END_ID)][:-1]
    assert TOKENIZER.encode(text).ids == expected


def test_it_is_written_as_the_package_writes_it() -> None:
    assert json.loads(TOKENIZER.to_str()) == json.loads(byte_vocabulary().tokenizer_json)
    assert TOKENIZER.token_to_id(END_TEXT) == END_ID == TOKENIZER.get_vocab_size() - 1
