"""Random schemas, regexes and grammars are taken, or refused with a reason.

Random tokens under the mask of one that is taken end in a text which it describes.
"""

import json
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest

from agentrt import cfg, embedded, json_schema, regex
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.base.vocabulary import Vocab
from agentrt.prompt import Codec
from agentrt.structured import CompiledConstraint, bitmask_words
from agentrt.structured.sandbox.service import CompileService
from tests.fuzz.constraints import random_grammar, random_regex, random_schema, text_of
from tests.fuzz.rounds import cases, dice_of

MOST_STEPS = 40
MOST_CLOSING_TOKENS = 200
BATCHES = 4
DRAWS = ((json_schema, random_schema), (json_schema, random_schema), (regex, random_regex),
         (cfg, random_grammar))  # fmt: skip


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.load(embedded.path())


@pytest.fixture(scope="module")
def service():
    made = CompileService()
    yield made
    made.close()


def random_text(dice: Random, constraint: CompiledConstraint, vocab: Vocab) -> bytes | None:
    """A text drawn under the masks and closed; None if no short end is found.

    Raises:
        ConstraintError: The grammar is too ambiguous to go on.
    """
    state, row = constraint.start(), np.zeros(bitmask_words(vocab.logits_size), dtype=np.int32)
    written: list[int] = []
    for _ in range(dice.randint(0, MOST_STEPS)):
        row[:] = -1
        state.fill_bitmask(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(vocab.token_bytes)]
        allowed = np.flatnonzero(bits)
        assert len(allowed), "the mask allows nothing"
        token = int(dice.choice(allowed))
        if token in vocab.eos_ids:
            assert state.can_stop(), "the mask allows an early end"
            break
        assert state.advance([token]) == 1, "the mask allows a token that is refused"
        written.append(token)
    closing = state.completion(MOST_CLOSING_TOKENS)
    if closing is None:
        return None
    assert state.advance(closing) == len(closing)
    assert state.can_stop(), "the completion is none"
    return b"".join(vocab.token_bytes[token] for token in (*written, *closing))


def judge(source: Any, text: bytes) -> None:
    """Compare a finished text with what was asked for, as far as Python can read that."""
    if isinstance(source, str):
        return
    value = json.loads(text)
    try:
        fault = jsonschema.exceptions.best_match(
            jsonschema.Draft202012Validator(source).iter_errors(value)
        )
    except Exception:
        return  # the validator cannot read the schema, as it may be malformed
    assert fault is None, fault.message[:500]


def outcome_of(dice: Random, codec: Codec, service: CompileService, source: Any, make: Any) -> str:
    try:
        constraint = make(source)
        compiled = service.compile(constraint.shape.spec, codec.vocab, JSON_ARRAY_FRAME)
        text = random_text(dice, compiled, codec.vocab)
    except ConstraintError as error:
        assert error.message  # noqa: PT017
        return "refused"
    if text is None:
        return "open"
    judge(source, text)
    return "written"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_constraint_is_taken_or_refused(codec, service, batch):
    seen = dict.fromkeys(("refused", "open", "written"), 0)
    for case in cases(15):
        dice = dice_of(case * BATCHES + batch)
        make, draw = dice.choice(DRAWS)
        source = draw(dice)
        try:
            seen[outcome_of(dice, codec, service, source, make)] += 1
        except Exception as error:
            error.add_note(f"case {case * BATCHES + batch}: {make.__name__}({text_of(source)})")
            raise
    print(seen)
    assert min(seen["refused"], seen["written"]) > 0
