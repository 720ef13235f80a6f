"""Special tokens around a text, compared with those of the tokenizer itself."""

import json

import pytest
from tokenizers import Tokenizer

from agentrt.prompt.text_frame import text_frame

BOS = {"SpecialToken": {"id": "<s>", "type_id": 0}}
EOS = {"SpecialToken": {"id": "</s>", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
TOKENS = {
    "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
    "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]},
}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def template(*pieces):
    return {
        "type": "TemplateProcessing",
        "single": list(pieces),
        "pair": [TEXT, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": TOKENS,
    }


@pytest.mark.parametrize(
    "processor",
    [
        None,
        BYTES,
        template(TEXT),
        template(BOS, TEXT),
        template(BOS, TEXT, EOS),
        {"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
        {"type": "Sequence", "processors": [BYTES, template(BOS, TEXT)]},
    ],
)
def test_the_frame_is_that_of_the_tokenizer(processor):
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": processor,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "</s>": 1, "a": 2}, "unk_token": "a"},
    }
    before, behind = text_frame(tokenizer)
    ids = Tokenizer.from_str(json.dumps(tokenizer)).encode("a").ids
    assert [*before, 2, *behind] == ids
