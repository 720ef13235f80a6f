"""Units of text, and the words that they become."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.lab.recorded.codebook import Codebook, units_of, word_at, word_order


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text=st.text(max_size=80))
def test_units_joined_are_the_text(text: str) -> None:
    assert "".join(units_of(text)) == text
    assert all(units_of(text))


def test_long_words_are_cut_evenly_and_punctuation_is_joined() -> None:
    assert list(units_of('{"name":"calculate_taxes"}\n  x')) == [
        *('{"', "name", '":"', "calc", "ulate", "_taxes", '"}', "\n  ", "x"),
    ]


def test_equal_units_have_equal_numbers_and_others_differ() -> None:
    book = Codebook()
    first, second = book.encode("a b a"), book.encode(" b c")
    assert first == (0, 1, 2)  # "a" and " a" are two tokens
    assert second == (1, 3)
    assert (len(book), book.shared(4), book.shared(3)) == (4, 0, 1)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(words=st.integers(16, 400), number=st.integers(0, 100_000))
def test_a_word_is_its_units_own_until_there_are_too_many(words: int, number: int) -> None:
    at = word_at(number, words)
    assert at == number if number < words else words // 2 <= at < words
    assert sorted(word_order(words, "x")) == list(range(words))
    assert word_order(words, "x") != word_order(words, "y")
