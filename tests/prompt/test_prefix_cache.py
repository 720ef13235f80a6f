"""Prefixes are found again, and the cache stays within its bound."""

import pytest

from agentrt import embedded
from agentrt.base.segments import Close, Open, Text
from agentrt.prompt import Codec
from agentrt.prompt.prefix_cache import PrefixCache


@pytest.fixture
def composer():
    return Codec.load(embedded.path()).tool_views.for_tools(()).composer


@pytest.fixture
def cache(composer):
    return PrefixCache(composer, max_prefixes=20)


def ask(cache, text):
    prefix = cache.root("template")
    for segment in (Open("user"), Text(text), Close()):
        prefix = cache.extend(prefix, segment)
    return prefix


def test_equal_chats_are_one_prefix(cache):
    assert ask(cache, "a") is ask(cache, "a")
    assert cache.misses == 3


def test_ids_are_the_same_however_they_are_gathered(cache):
    base = ask(cache, "a question")
    child = cache.extend(cache.extend(base, Open("user")), Text("more"))
    alone = cache.token_ids(child)
    cache.token_ids(base)
    assert cache.token_ids(child) == alone
    assert alone[: len(cache.token_ids(base))] == cache.token_ids(base)


def test_what_is_used_survives(cache):
    kept = ask(cache, "kept")
    for number in range(200):
        ask(cache, f"other {number}")
        assert ask(cache, "kept") is kept
    assert len(cache) <= 20


def test_what_is_not_used_is_let_go(cache):
    ask(cache, "early")
    for number in range(20):
        ask(cache, f"other {number}")
    before = cache.misses
    ask(cache, "early")
    assert cache.misses > before


def test_ids_are_bounded_too(composer):
    """Few long texts take as much memory as many short ones."""
    bounded = PrefixCache(composer, max_prefixes=2_000, max_ids=4_000)
    for number in range(40):
        ask(bounded, f"{number} " + "word " * 400)
    assert 0 < len(bounded) < 40
