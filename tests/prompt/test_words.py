"""Text that is encoded word by word has the ids of the whole."""

import json
from random import Random

import pytest
from tokenizers import Tokenizer

from agentrt import embedded
from agentrt.prompt.text_encoder import SAMPLE
from agentrt.prompt.words import PATTERNS, Words, cuts_at_words

FILE = json.loads((embedded.path() / "tokenizer.json").read_text(encoding="utf-8"))
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def cut_by(*steps, **changes):
    return {**FILE, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, **changes}


KNOWN = {pattern: cut_by(split(pattern), BYTES) for pattern in sorted(PATTERNS)}
KNOWN["GPT-2's own"] = {**FILE, "pre_tokenizer": {**BYTES, "use_regex": True}}
KNOWN["composed"] = {**FILE, "normalizer": {"type": "NFC"}}
PARTS = [
    *("word", "A", "the", "I", "don't", "we'LL", "'s", "x'", "HTTPServer2x", "3", "1,234.5", "%"),
    *(" ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\x1c", "\u200b", "\u180e"),
    *("é", "e\u0301", "\u0301", "東京", "\U0001f600", "\u200d", ".", ", ", "...", "(", "_", "/"),
    *("--", "Ǆ", "ª", "٣", "\x00", "<|im_end|>"),
]


@pytest.mark.parametrize("name", KNOWN)
def test_words_have_the_ids_of_the_whole(name):
    assert cuts_at_words(KNOWN[name], [])
    tokenizer = Tokenizer.from_str(json.dumps(KNOWN[name]))
    words, dice = Words(tokenizer), Random(f"words {name}")
    for _ in range(600):
        text = "".join(dice.choices(PARTS, k=dice.randrange(60)))
        for _ in range(2):  # some are known now
            assert words.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids
        cut = Words.last_cut(text)
        more = "".join(dice.choices(PARTS, k=3))
        whole, *halves = [
            tokenizer.encode(one, add_special_tokens=False).ids
            for one in (text + more, text[:cut], text[cut:] + more)
        ]
        assert [*halves[0], *halves[1]] == whole


def test_the_file_of_the_sample_has_cuts():
    assert Words.last_cut(SAMPLE)
    assert Words.last_cut("no") == Words.last_cut(" one") == Words.last_cut("two  spaces") == 0
    assert Words.last_cut("one, two  3") == len("one,")


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "NFKC"}},
        {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {**BYTES, "use_regex": True, "add_prefix_space": True}},
        cut_by(split(r"\p{L}+ ?\p{L}+"), BYTES),
        cut_by(split(min(PATTERNS)), {**BYTES, "add_prefix_space": True}),
        cut_by({**split(min(PATTERNS)), "behavior": "MergedWithNext"}, BYTES),
        {"model": {**FILE["model"], "dropout": 0.1}},
        {"model": {**FILE["model"], "type": "Unigram"}},
    ],
)
def test_other_tokenizers_encode_the_whole(changes):
    assert cuts_at_words(FILE, [])
    assert not cuts_at_words({**FILE, **changes}, [])


@pytest.mark.parametrize("token", [{"content": "a b"}, {"content": "a", "lstrip": True}])
def test_added_tokens_that_reach_over_a_cut_forbid_it(token):
    assert cuts_at_words(FILE, [{"content": "a"}])
    assert not cuts_at_words(FILE, [token])


class Listening:
    """A tokenizer that notes what it encodes."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.texts = []

    def encode(self, text, **given):
        self.texts.append(text)
        return self.tokenizer.encode(text, **given)


def test_words_are_kept_and_what_may_be_a_secret_is_not():
    tokenizer = Listening(Tokenizer.from_str(json.dumps(FILE)))
    words = Words(tokenizer)  # type: ignore[arg-type]
    text = " the password that all of you should know is hunter2 and not the one in sk-abcDEF, so"
    for _ in range(3):
        tokenizer.texts.clear()
        words.encode(text)
    assert tokenizer.texts == [" hunter2", " sk-abcDEF,"]
