"""Guesses of how forced bytes are spelled: they spare steps and never change a token."""

import json
import shutil
from types import SimpleNamespace

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.engine.sampling import grammar_masks
from agentrt.engine.sequence import draft, forced_drafts
from agentrt.structured import compile_constraint
from agentrt.structured.vocabulary import alphabet_of

PROMPT = [(3 * at) % 250 for at in range(40)]
FIELDS = ("name", "value", "total")
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": -99, "maximum": 99} for name in FIELDS},
    "required": list(FIELDS),
    "additionalProperties": False,
}
SPEC = ConstraintSpec("json", json.dumps({"type": "array", "items": SCHEMA, "maxItems": 4}))


MERGES = (('"', ":"), ('":', "-"), ('":-', "1"), ('":', "2"))


@pytest.fixture(scope="module")
def merging(tokenizer_dir, tmp_path_factory):
    """A tokenizer with some tokens of several bytes, in place of bytes that no test writes."""
    path = tmp_path_factory.mktemp("merging") / "model"
    shutil.copytree(tokenizer_dir, path)
    known = json.loads((path / "tokenizer.json").read_text())
    vocab = known["model"]["vocab"]
    rare = [char for char in vocab if not char.isascii()][: len(MERGES)]
    for char, pair in zip(rare, MERGES, strict=True):
        vocab["".join(pair)] = vocab.pop(char)
    known["model"]["merges"] = [list(pair) for pair in MERGES]
    (path / "tokenizer.json").write_text(json.dumps(known))
    return path


class Tried(list[tuple[draft.Verification, int]]):
    """Guesses that were computed, and how many tokens of each are right so far, if all were.

    With `alone` each of their tokens is drawn by itself.
    """

    alone = False


@pytest.fixture
def tried(monkeypatch):
    seen = Tried()
    right = draft.Verification.accept

    def noted(self):
        if seen.alone:
            self.drawn_tokens = -1
        accepted = right(self)
        seen.append((self, self.matching_tokens if accepted else 0))
        return accepted

    monkeypatch.setattr(draft.Verification, "accept", noted)
    return seen


def serve(core, engine, temperature):
    for number in range(12):
        core.submit(
            engine.request(
                number,
                PROMPT[number:],
                constraint=SPEC,
                max_tokens=20 + 5 * number,
                on_limit="close",
                temperature=temperature,
                seed=number,
                repetition_penalty=1.1 if number % 3 == 0 else 1.0,
            )
        )
    return engine.drain(core)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_right_and_wrong_guesses_leave_every_token_as_it_was(merging, engine, tried, temperature):
    """A loop that launches ahead makes no guesses: it writes what this one has to."""
    plain = engine.hash_core(merging, page_tokens=4, overlap="on")
    expected = serve(plain, engine, temperature)
    assert not tried
    core = engine.hash_core(merging, page_tokens=4)
    found = serve(core, engine, temperature)
    for number in range(12):
        assert found.ids(number) == expected.ids(number)
        assert found.text(number) == expected.text(number)
    assert tried
    assert core.forwards < plain.forwards
    drafts = [one for end in found.ends.values() for one in end.ledger.drafts]
    assert {one.source for one in drafts} == {"grammar"}
    assert sum(one.rejected_tokens for one in drafts) > 0
    spared = {number: end.ledger.forced_tokens for number, end in found.ends.items()}
    before = {number: end.ledger.forced_tokens for number, end in expected.ends.items()}
    if temperature == 0.0:  # else a text is hardly ever spelled alike again
        assert sum(one.accepted_tokens for one in drafts) > 0
        assert sum(spared.values()) > sum(before.values())


@pytest.mark.parametrize("threshold", [54, 63])
def test_no_guess_crosses_the_length_at_which_angles_change(merging, engine, tried, threshold):
    behind = []

    class Turning(engine.hash_machine):  # type: ignore[name-defined]
        def __init__(self, *args):
            super().__init__(*args)
            self.model.rope_threshold = threshold

        def forward(self, parts):
            for part in parts:
                behind.append(part.angle_offset)
                last = part.first_position + len(part.token_ids)
                assert part.angle_offset or last <= threshold
            return super().forward(parts)

    expected = serve(engine.hash_core(merging, page_tokens=4), engine, 0.0)
    tried.clear()
    found = serve(engine.hash_core(merging, page_tokens=4, runner=Turning), engine, 0.0)
    assert {*behind} == {0, threshold}
    assert tried
    assert [found.ids(number) for number in range(12)] == [
        expected.ids(number) for number in range(12)
    ]


def test_without_jumps_nothing_is_guessed(merging, engine, tried):
    serve(engine.hash_core(merging, jump_forward=False), engine, 0.0)
    assert not tried


def test_a_guess_whose_mask_is_late_is_computed_again(merging, engine, monkeypatch, tried):
    expected = serve(engine.hash_core(merging, page_tokens=4), engine, 0.0)
    finish = grammar_masks.MaskFiller.finish_masks
    late: list[object] = []

    def finished(self, rows, begun):
        made = finish(self, rows, begun)
        if {one.sequence for one, count in tried if count} == set(rows):  # behind right guesses
            made.late.update(range(len(rows)))
            late.extend(rows)
        tried.clear()
        return made

    monkeypatch.setattr(grammar_masks.MaskFiller, "finish_masks", finished)
    tried.alone = True  # as near a token budget: no mask is known before its turn
    tried.clear()
    found = serve(engine.hash_core(merging, page_tokens=4), engine, 0.0)
    assert late
    assert [found.ids(number) for number in range(12)] == [
        expected.ids(number) for number in range(12)
    ]


@pytest.fixture(scope="module")
def spelled(merging):
    """A state behind `[{"name`, and what a speller needs."""
    from agentrt.prompt import Codec

    codec = Codec.load(merging)
    alphabet = alphabet_of(codec.vocab)
    state = compile_constraint(SPEC, codec.vocab, codec.call_frame).start()
    assert state.advance(tokens := alphabet.tokenize(b'[{"name')) == len(tokens)
    return SimpleNamespace(state=state, alphabet=alphabet, codec=codec)


def test_forced_bytes_are_spelled_as_the_tokenizer_does(spelled):
    speller = forced_drafts.TokenGuesser(spelled.alphabet.tokenize, spelled.alphabet.bytes_of)
    text = spelled.state.forced_text()
    assert text == b'":'
    assert speller.guess(spelled.state, text, 8) == spelled.alphabet.tokenize(text)
    assert speller.guess(spelled.state, text, 1) == spelled.alphabet.tokenize(text)[:1]
    assert speller.guess(spelled.state, b"", 8) == []


def test_what_the_model_said_is_guessed_next_and_followed(spelled):
    """A token that says more than was forced leads on to what is forced behind it."""
    alphabet = spelled.alphabet
    five = alphabet.byte_ids[ord("5")]
    speller = forced_drafts.TokenGuesser(
        alphabet.tokenize, lambda ids: b'":5' if ids == [five] else b'"'
    )
    for _ in range(2):
        speller.learn(b'":', five)
    taken = []

    class Walk:
        """Takes anything; what is forced is told to it."""

        def fork(self):
            return self

        def advance(self, tokens):
            taken.append(list(tokens))
            return len(tokens)

        def forced_tokens(self, limit):
            return [91, 92][:limit]

        def forced_text(self):
            return b""

    assert speller.guess(Walk(), b'":', 8) == [five, 91, 92]  # type: ignore[arg-type]
    assert taken == [[five], [91, 92]]


def test_what_differs_each_time_is_not_guessed_any_more(spelled):
    """Each guess would cost as many rows of a forward as there are tokens in it."""
    alphabet, text = spelled.alphabet, b'":'
    others = [alphabet.byte_ids[ord(char)] for char in "123456"]
    speller = forced_drafts.TokenGuesser(alphabet.tokenize, lambda ids: text)

    def guess():
        return speller.guess(spelled.state, text, 1)

    assert guess() == alphabet.tokenize(text)[:1]
    for token_id in others:
        speller.learn(text, token_id)
    assert guess() == []
    for _ in range(2):
        speller.learn(text, others[-1])
    assert guess() == others[-1:]


def test_a_chain_of_guesses_ends_where_it_is_unlikely(spelled):
    """Each is right every other time, for all that is known, so that three hardly ever are."""
    speller = forced_drafts.TokenGuesser(lambda text: [1], lambda ids: b" ab" * len(ids))

    class Words:
        """Any words, with a blank before each."""

        def fork(self):
            return self

        def advance(self, tokens):
            return len(tokens)

        def forced_tokens(self, limit):
            return []

        def forced_text(self):
            return b" "

    assert speller.guess(Words(), b" ", 8) == [1] * 2  # type: ignore[arg-type]
    for _ in range(20):
        speller.learn(b" ", 1)
    assert speller.guess(Words(), b" ", 8) == [1] * 8  # type: ignore[arg-type]
    for token_id in range(2, 22):
        speller.learn(b" ", token_id)
    assert speller.guess(Words(), b" ", 8) == []  # type: ignore[arg-type]


def test_a_shorter_token_leaves_the_spelling_of_the_tokenizer(spelled):
    alphabet, text = spelled.alphabet, b'":'
    speller = forced_drafts.TokenGuesser(alphabet.tokenize, lambda ids: b'"')
    own = alphabet.tokenize(text)
    speller.learn(text, alphabet.byte_ids[ord('"')])
    assert speller.guess(spelled.state, text, 8) == own


def test_text_that_the_tokenizer_cannot_write_is_no_error(spelled):
    """A vocabulary may lack a byte; the model writes it as part of a longer token."""
    speller = forced_drafts.TokenGuesser(lambda text: [], lambda ids: b'"' * len(ids))
    assert speller.guess(spelled.state, b'":', 8) == []
    speller.learn(b'":', 93)
    assert speller.guess(spelled.state, b'":', 8) == []
