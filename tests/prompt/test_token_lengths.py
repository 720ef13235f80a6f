"""Length of the text that one token can stand for."""

import pytest

from agentrt.prompt.token_bytes import byte_of_character
from agentrt.prompt.token_lengths import most_text_bytes

BYTES = [bytes((byte,)) for byte in range(256)]
SPELLED = {chr(shown): byte for shown, byte in byte_of_character().items()}
BYTE_LEVEL = {"type": "ByteLevel"}
PLAIN = {"pre_tokenizer": BYTE_LEVEL, "model": {"type": "BPE", "vocab": SPELLED}}
REMOVING = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"}


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 5),
        ({"normalizer": {"type": "NFC"}}, 15),
        ({"normalizer": {"type": "Prepend", "prepend": "\u2581"}}, 5),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}, 15),
        ({"normalizer": {"type": "Strip"}}, 0),
        ({"normalizer": {"type": "NFKC"}}, 0),
        ({"normalizer": {"type": "Replace", "pattern": {"String": "aa"}, "content": "a"}}, 0),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, 0),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL, REMOVING]}}, 0),
        ({"pre_tokenizer": None, "decoder": {"type": "ByteFallback"}}, 0),
        (
            {
                "pre_tokenizer": None,
                "decoder": {"type": "ByteFallback"},
                "model": {"type": "BPE", "vocab": {}, "byte_fallback": True},
            },
            5,
        ),
    ],
)
def test_a_token_stands_for_some_text_unless_text_can_be_dropped(changes, most):
    assert most_text_bytes({**PLAIN, **changes}, [], [*BYTES, b"hello"]) == most


def test_text_that_no_token_spells_has_no_limit():
    assert most_text_bytes(PLAIN, [], [*BYTES[:-1], b"hello"]) == 0


def test_a_token_that_takes_the_space_around_it_has_no_limit():
    assert most_text_bytes(PLAIN, [{"content": "x", "lstrip": True}], [*BYTES, b"hello"]) == 0
