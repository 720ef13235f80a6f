"""From transcripts to tensors: shared prefixes apart, rows of like length together, a weight for each target."""

import random
import string
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from corpus import finance, lookups
from corpus.example import EMBEDDED, Example, render, system
from corpus.mix import draw
from tokenizers import Tokenizer
from torch import Tensor

ELSEWHERE = 0.08  # the weight of targets that the model need not say: prompts and tool results
ROUND_TOKENS = 16
ROW_TOKENS = 2560
PLANS_OF_A_TABLE = 20
FIRST_WORD = 9  # the ids below are markers


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that continue one prefix; `weights[b, i]` is the weight of predicting `rows[b, i + 1]`."""

    prefix: Tensor  # [P]
    rows: Tensor  # [B, L + 1]
    weights: Tensor  # [B, L]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One transcript as ids, without the prefix it shares with its kind."""

    kind: str
    prefix: tuple[int, ...]
    ids: tuple[int, ...]
    weights: tuple[float, ...]


@cache
def tokenizer() -> Tokenizer:
    """The shipped tokenizer."""
    return Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))


def encode(text: str) -> list[int]:
    """The ids of a rendered conversation."""
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False).ids
    return ids


@cache
def marker(name: str) -> int:
    """The id of a marker token."""
    found = tokenizer().token_to_id(name)
    assert found is not None, name
    return found


@cache
def shared_prefix(kind: str, system_text: str, tools: str) -> tuple[int, ...]:
    """The ids that all transcripts of a kind with tools begin with."""
    del kind
    return tuple(encode(tools)) if tools else ()


def row(example: Example) -> Row:
    """Tokenize one transcript, weighing what the model is to say."""
    ids = encode(example.text)
    prefix: tuple[int, ...] = ()
    if example.tools:
        head = render([system(example.messages[0]["content"])], example.tools)
        prefix = shared_prefix(example.kind, example.messages[0]["content"], head)
    weights = [ELSEWHERE] * len(ids)
    turn, inside = -1, False
    for place, token in enumerate(ids):
        if inside:
            weights[place] = 1.0 if example.learn[turn] else 0.0
        if token == marker("<|assistant|>"):
            turn, inside = turn + 1, True
        elif token == marker("<|end|>"):
            inside = False
    # the row repeats the last prefix token, so that its first own token has something to be predicted from
    start = max(len(prefix) - 1, 0)
    return Row(example.kind, prefix[:-1], tuple(ids[start:]), tuple(weights[start + 1 :]))


def plans(rng: random.Random) -> list[Row]:
    """Questions about one table, each with its plan, as rows that continue one prefix: the tools and the table.

    What to ask of the tools is harder to learn than how to report what they said, so it is shown more often.
    """
    rows = [row(example) for example in finance.plans(rng, PLANS_OF_A_TABLE)]
    shared = _shared([one.ids for one in rows]) - 1  # a row repeats the last token of its prefix
    prefix = rows[0].prefix + rows[0].ids[:shared]
    return [replace(one, prefix=prefix, ids=one.ids[shared:], weights=one.weights[shared:]) for one in rows]  # fmt: skip


def _shared(every: Sequence[Sequence[int]]) -> int:
    """How many ids all sequences begin with."""
    columns = zip(*every, strict=False)
    return next((n for n, column in enumerate(columns) if len(set(column)) > 1), len(every[0]))


def looking_up(rng: random.Random) -> Row:
    """A table and mentions of its symbols, each with the arguments that it becomes."""
    shown, found = lookups.draw(rng)
    ids = [marker("<|begin|>"), marker("<|user|>"), *encode(shown)]
    weights = [ELSEWHERE * 0.5] * len(ids)
    for said, arguments in found:
        for text, weight in ((f"\nQuestion: {said}\n", ELSEWHERE * 0.5), (arguments, 1.0)):
            new = encode(text)
            ids += new
            weights += [weight] * len(new)
    return Row("lookup", (), tuple(ids), tuple(weights[1:]))


def copying(rng: random.Random) -> Row:
    """Random words, then the same words in another order: the first thing to learn is to look back.

    The first token of a word cannot be known and weighs nothing; the rest of it follows from what was said before.
    """
    every = range(FIRST_WORD, tokenizer().get_vocab_size())
    alphabet = rng.choice((capitals(), digits(), every, every))
    words = [tuple(rng.choices(alphabet, k=rng.randint(2, 7))) for _ in range(rng.randint(2, 8))]
    comma = encode(",")[0]
    ids, weights = [marker("<|begin|>")], []
    for place, word in enumerate([*words, *rng.choices(words, k=rng.randint(6, 12))]):
        known = float(place >= len(words))
        ids += [*word, comma]
        weights += [0.0, *[known] * len(word)]
    return Row("copy", (), tuple(ids), tuple(weights))


@cache
def capitals() -> tuple[int, ...]:
    """The ids of the capital letters."""
    return tuple(encode(string.ascii_uppercase))


@cache
def digits() -> tuple[int, ...]:
    """The ids of the digits."""
    return tuple(encode(string.digits))


def group(rows: Iterable[Row], device: torch.device) -> list[Batch]:
    """Batches of rows with one prefix and like length."""
    by_prefix: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for one in rows:
        by_prefix[one.prefix].append(one)
    batches = []
    for prefix, same in by_prefix.items():
        same.sort(key=lambda one: len(one.ids))
        while same:
            count = max(1, min(len(same), ROW_TOKENS // _rounded(len(same[0].ids))))
            while count > 1 and (
                _rounded(len(same[count - 1].ids)) * count > ROW_TOKENS
                or len(same[count - 1].ids) > 1.5 * len(same[0].ids) + 32
            ):
                count -= 1
            batches.append(_pad(prefix, same[:count], device))
            same = same[count:]
    return sorted(batches, key=lambda batch: -batch.rows.numel())


def _rounded(tokens: int) -> int:
    return (tokens - 1 + ROUND_TOKENS - 1) // ROUND_TOKENS * ROUND_TOKENS + 1


def _pad(prefix: Sequence[int], rows: Sequence[Row], device: torch.device) -> Batch:
    width = _rounded(max(len(one.ids) for one in rows))
    ids = [one.ids + (marker("<|pad|>"),) * (width - len(one.ids)) for one in rows]
    weights = [one.weights + (0.0,) * (width - 1 - len(one.weights)) for one in rows]
    return Batch(
        torch.tensor(prefix, dtype=torch.long, device=device),
        torch.tensor(ids, device=device),
        torch.tensor(weights, device=device),
        tuple(one.kind for one in rows),
    )


def step_rows(seed: int, step: int, count: int, copies: int) -> list[Row]:
    """The rows of training step `step`: `count` tables with plans, twice as many lookups, thrice as many transcripts, and copies."""
    rng = random.Random(f"{seed}:{step}")
    drawn = [row(draw(seed, step * count * 3 + i)) for i in range(count * 3)]
    planned = [one for _ in range(count) for one in plans(rng)]
    found = [looking_up(rng) for _ in range(2 * count)]
    return [*drawn, *planned, *found, *(copying(rng) for _ in range(copies))]
