"""A small real vocabulary, trained on the spot, for all tests of constraints."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured import CompileCache, bitmask_words
from agentrt.structured.vocabulary import alphabet_of

SPECIAL = [
    "<|begin|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|call|>",
    "<|/call|>",
]
TEXT = "the price of return from to symbol year month report fact total name value items"
WORDS = tuple(TEXT.split())


def training_lines():
    dice = random.Random(7)
    for _ in range(400):
        words = dice.choices(WORDS, k=6)
        record = {w: dice.choice([dice.randint(0, 5000), w, [w, 1], True, None]) for w in words}
        yield json.dumps(record, separators=(",", ":"))
        yield " ".join(words) + ". " + json.dumps({"name": words[0], "arguments": record})


def train(vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=SPECIAL,
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_lines(), trainer)
    return tokenizer


def byte_of_char():
    """GPT-2's printable stand-ins for bytes, in reverse."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in plain}
    rest = [b for b in range(256) if b not in plain]
    table.update({chr(256 + i): b for i, b in enumerate(rest)})
    return table


@pytest.fixture(scope="session")
def tokenizer():
    return train(700)


@pytest.fixture(scope="session")
def vocab(tokenizer):
    chars = byte_of_char()
    special = {text: tokenizer.token_to_id(text) for text in SPECIAL}
    size = tokenizer.get_vocab_size()
    token_bytes = tuple(
        b""
        if token_id in special.values()
        else bytes(chars[c] for c in tokenizer.id_to_token(token_id))
        for token_id in range(size)
    )
    source = tokenizer.to_str()
    return Vocab(
        token_bytes=token_bytes,
        special_ids=special,
        eos_ids=(special["<|end|>"],),
        tokenizer_json=source,
        logits_size=size + 20,
        fingerprint=hashlib.sha256(source.encode()).hexdigest(),
    )


@pytest.fixture(scope="session")
def frame():
    return CallFrame(
        before='<|call|>{"name":"',
        middle='","arguments":',
        after="}<|/call|>",
        special=("<|call|>", "<|/call|>"),
    )


@pytest.fixture(scope="session")
def compiled(vocab, frame):
    """Compile a spec once for all tests."""
    cache = CompileCache()
    return lambda spec: cache.get(spec, vocab, frame)


@pytest.fixture(scope="session")
def accepts(tokenizer, vocab, compiled):
    """Whether a constraint takes a text, walked by masks and by tokens alike."""

    def walk(spec, text):
        constraint = compiled(spec)
        ids = alphabet_of(vocab).tokenizer.tokenize_str(text, parse_special=True)
        state = constraint.start()
        row = np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
        for token in ids:
            state.fill_bitmask(row)
            allowed = bool((int(row[token >> 5]) >> (token & 31)) & 1)
            taken = state.advance([token]) == 1
            assert taken or not allowed, "the mask allows what is refused"
            if not taken:
                return False
        return state.can_stop()

    return walk
