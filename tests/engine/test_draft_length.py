"""Drafts of adaptive length: as long as they pay by the learned time of a step, on virtual time."""

from random import Random

import pytest

from tests.engine.hash_machine import steered

STEM = [(13 * at) % 249 for at in range(40)]
SEQUENCES = 8
OUTPUT_TOKENS = 60


def paced(machine: type, base_s: float, row_s: float) -> type:
    """A hash model that takes so long for a step, and for each row of it."""

    class Paced(machine):
        clock = None

        def forward(self, parts):
            if self.clock is not None:
                rows = sum(len(part.token_ids) for part in parts)
                self.clock.advance(base_s + row_s * rows)
            return super().forward(parts)

    return Paced


def seconds_of_rounds(core, engine, texts):
    """Virtual seconds of each round of the same requests, and their tokens.

    Their call site is new in each round, and has written nearly the same texts before.
    """
    core.executor.runner.clock = core.clock
    random, found, outputs = Random(1), [], []
    for number in range(3):
        for text in texts:
            guessed = [one if random.random() < 0.9 else random.randrange(250) for one in text]
            earlier = engine.request(900, STEM, max_tokens=len(text) + 2, cache_salt=str(number))
            core.submit(engine.replace(earlier, output_ids=tuple(guessed)))
            engine.drain(core)
        began_s = core.clock.now_s()
        for at in range(SEQUENCES):
            prompt = [*STEM, at]
            how = {"max_tokens": OUTPUT_TOKENS, "temperature": 0.8, "seed": at}
            core.submit(engine.request(10 * number + at, prompt, cache_salt=str(number), **how))
        served = engine.drain(core)
        found.append(core.clock.now_s() - began_s)
        outputs.append([served.ids(10 * number + at) for at in range(SEQUENCES)])
    core.close()
    return found, outputs


@pytest.mark.parametrize(
    ("base_s", "row_s", "least_share", "most_share"),
    [(0.02, 1e-5, 0.0, 0.7), (1e-4, 0.02, 0.97, 1.03)],
    ids=["below the knee", "above the knee"],
)
def test_drafts_are_made_where_they_pay(
    base_s, row_s, least_share, most_share, tokenizer_dir, engine
):
    """Of eight sequences at once. Where a row costs as much as a step, they cost no time."""
    machine = paced(engine.hash_machine, base_s, row_s)
    shares: list[float] = []
    plain_s: list[float] = []
    texts: list[list[int]] = [[]] * SEQUENCES
    for tokens in ("off", "auto"):
        core = engine.hash_core(
            tokenizer_dir, speculate_tokens=tokens, runner=machine, eos_bias=-9.0
        )
        rounds_s, outputs = seconds_of_rounds(core, engine, texts)
        assert outputs[0] == outputs[1] == outputs[2]
        if tokens == "off":
            plain_s, texts = rounds_s, outputs[0]
        else:
            assert outputs[0] == texts
            shares = [one / plain for one, plain in zip(rounds_s, plain_s, strict=True)]
    assert least_share <= shares[-1] <= most_share


def copying(position: int) -> int:
    """A text of 60 tokens that is written again and again."""
    return (7 * (position % 60)) % 249


@pytest.mark.parametrize(
    ("text", "waits", "sequences"),
    [("copying", True, 4), ("copying", True, 16), ("repeating", False, 4)],
    ids=["copies", "many copy", "only seem to"],
)
def test_a_step_waits_for_tokens_where_drafts_behind_them_pay(
    text, waits, sequences, tokenizer_dir, engine
) -> None:
    """Of a machine that launches steps before the last one's tokens are known, several at once.

    It stands still for a step before each that waits, which a draft has to be worth. No request
    has another's text to draw on.
    """
    steering = {"copying": copying, "repeating": repeating}[text]
    told: dict[str, list[list[int]]] = {}
    rows: dict[str, float] = {}
    for tokens in ("off", "auto"):
        core = engine.hash_core(
            tokenizer_dir,
            speculate_tokens=tokens,
            overlap="on",
            device="cuda",
            runner=paced(steered(engine.hash_machine, steering), 0.01, 1e-5),
            eos_bias=-9.0,
        )
        machine = core.executor.runner
        machine.clock = core.clock
        for number in range(3):
            before = machine.named_by_slot
            names = [100 * number + at for at in range(sequences)]
            for name in names:
                core.submit(
                    engine.request(name, [name % 100], max_tokens=150, cache_salt=str(name))
                )
            served = engine.drain(core)
            rows[tokens] = machine.named_by_slot - before
        told[tokens] = [served.ids(name) for name in names]
        core.close()
    assert told["auto"] == told["off"]
    assert (rows["auto"] < 0.5 * rows["off"]) == waits
    assert waits or rows["auto"] >= 0.95 * rows["off"]


def repeating(position: int) -> int:
    """A text in which what repeats goes on differently each time."""
    place, turn = position % 4, position // 4
    return place if place < 3 else 9 + turn % 240


def test_a_source_that_always_fails_ends_soon(tokenizer_dir, engine):
    """The last three tokens stood before, and another one followed: of 12 outputs of 200 tokens."""
    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens="auto",
        runner=steered(engine.hash_machine, repeating),
        eos_bias=-9.0,
    )
    rejected, accepted = [], 0
    for number in range(12):
        core.submit(engine.request(number, [number], max_tokens=200))
        drafts = engine.drain(core).ends[number].ledger.drafts
        rejected.append(sum(one.rejected_tokens for one in drafts if one.source == "prompt"))
        accepted += sum(one.accepted_tokens for one in drafts if one.source == "prompt")
    core.close()
    assert sum(rejected) > 0
    assert sum(rejected) <= 60 + 10 + 12 * 200 / 64
    assert sum(rejected[6:]) <= 6 * 200 / 64
    assert accepted == 0
