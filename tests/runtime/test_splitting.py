"""Long texts in parts: sizes, breaks, overlap, and the tokens of the engine."""

import re
import threading
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import NoRun, UsageError, program, split
from agentrt.program.splitting import THREAD_CHARACTERS, split_text
from agentrt.prompt import Codec
from agentrt.protocol.backend_layer import BackendLayer

TEXTS = st.text(st.sampled_from('abc 0.,;!"\n。é\U0001f600'), max_size=200)
COUNTS = st.sampled_from(
    [
        len,
        lambda text: len(text.encode()),
        lambda text: len(re.findall(r"\w+|\W", text)),
        lambda text: (len(text) + 3) // 4 + 1,  # a piece takes more alone than joined
        lambda text: (len(text) + text.count("a") * text.count("b") + 2) // 3,  # and less
    ]
)
PROSE = (
    "The Nile is long. It floods each year, as the Rhine does; nobody minds.\n"
    "Its source was sought for long.\n\n"
    "The Po is short. It ends in the sea."
)


def words(text: str) -> int:
    return len(text.split())


@given(TEXTS, st.integers(6, 40), COUNTS)
def test_parts_fit_and_joined_are_the_text(text: str, size: int, count: Any) -> None:
    parts = split_text(text, size, 0, count)
    assert "".join(parts) == text
    assert all(part and count(part) <= size for part in parts)


@given(TEXTS, st.integers(8, 40), st.integers(1, 7), COUNTS)
def test_a_part_begins_with_the_end_of_the_one_before(
    text: str, size: int, overlap: int, count: Any
) -> None:
    parts = split_text(text, size, overlap, count)
    assert all(count(part) <= size for part in parts)
    found = parts[0] if parts else ""
    for before, part in pairwise(parts):
        repeated = next(
            n
            for n in range(len(part))
            if before.endswith(part[:n]) and text.startswith(found + part[n:])
        )
        found += part[repeated:]
    assert found == text


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (50, [PROSE]),
        (
            21,
            [
                "The Nile is long. It floods each year, as the Rhine does; nobody minds.\n"
                "Its source was sought for long.\n\n",
                "The Po is short. It ends in the sea.",
            ],
        ),
        (
            14,
            [
                "The Nile is long. It floods each year, as the Rhine does; nobody minds.\n",
                "Its source was sought for long.\n\n",
                "The Po is short. It ends in the sea.",
            ],
        ),
        (
            9,
            [
                "The Nile is long. It floods each year, ",
                "as the Rhine does; nobody minds.\n",
                "Its source was sought for long.\n\n",
                "The Po is short. It ends in the sea.",
            ],
        ),
        (
            5,
            [
                *("The Nile is long. ", "It floods each year, ", "as the Rhine does; "),
                *("nobody minds.\nIts source was ", "sought for long.\n\n"),
                *("The Po is short. ", "It ends in the sea."),
            ],
        ),
    ],
)
def test_parts_end_at_the_largest_break_that_fits(size: int, parts: list[str]) -> None:
    assert split_text(PROSE, size, 0, words) == parts


def test_overlap_is_in_whole_sentences_if_they_fit() -> None:
    parts = split_text(PROSE, 14, 6, words)
    assert parts[1].startswith("as the Rhine does; nobody minds.\nIts source")
    assert parts[2].startswith("source was sought for long.\n\nThe Po is short.")


def test_a_long_text_is_split_in_a_worker_thread() -> None:
    threads: set[int] = set()

    def count(text: str) -> int:
        threads.add(threading.get_ident())
        return len(text)

    async def main() -> list[str]:
        return await split("word " * THREAD_CHARACTERS, 1000, count=count)

    assert len(anyio.run(main)) == 82
    assert threading.get_ident() not in threads


def test_tokens_are_those_of_the_engine(bench: Any, codec: Codec) -> None:
    @program
    async def parts_of(text: str) -> list[str]:
        return await split(text, 20, overlap=5)

    parts = bench([], codec=codec).run(parts_of, PROSE * 3)
    sizes = [codec.count(part) for part in parts]
    assert max(sizes) <= 20
    assert min(sizes[:-1]) > 8
    assert len(parts) > 3


def test_a_part_may_be_too_small() -> None:
    with pytest.raises(UsageError, match=r"size=1 is too small: 'é' alone takes 2"):
        split_text("é", 1, 0, lambda text: len(text.encode()))


class Uncounted(BackendLayer):
    """An engine with a tokenizer that only it knows."""

    @property
    def count_tokens(self) -> None:
        return None


def test_scripted_engines_count_their_own_tokens(bench: Any) -> None:
    @program
    async def parts_of(text: str) -> list[str]:
        return await split(text, 20)

    parts = bench([]).run(parts_of, PROSE)
    assert "".join(parts) == PROSE
    assert max(map(len, parts)) <= 20  # one token a byte


def test_misuse_is_told(bench: Any) -> None:
    @program
    async def parts_of(size: int, overlap: int = 0, model: str = "default") -> list[str]:
        return await split("x", size, overlap=overlap, model=model)

    for given_, said in (
        ({"size": 0}, "size=0"),
        ({"size": 5, "overlap": 5}, "overlap=5"),
        ({"size": 5, "model": "judge"}, "no engine has the role 'judge'"),
        ({"size": 5}, "tokenizer of the engine 'default' is not known"),
    ):
        rig = bench([])
        rig.backend = Uncounted(rig.backend)
        with pytest.raises(UsageError, match=said):
            rig.run(parts_of, **given_)
    with pytest.raises(NoRun, match="split was used outside a run"):
        anyio.run(split, "x", 5)
