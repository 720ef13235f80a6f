"""Texts that drafts come from: places that agree, and outputs of call sites."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.engine.drafts.ngrams import START, NgramIndex, TextLookup, Trail, continuation
from agentrt.engine.drafts.site_outputs import (
    MAX_SITES,
    SITE_TOKENS,
    OutputsBySite,
    SiteOutputs,
)

texts = st.lists(st.integers(0, 3), max_size=40)


def latest_earlier(text: list[int]) -> int | None:
    """Index behind the latest earlier occurrence of the last three tokens, by definition."""
    places = [at for at in range(3, len(text)) if text[at - 3 : at] == text[-3:]]
    return max(places, default=None)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text=texts, cut=st.integers(0, 40))
def test_a_text_is_searched_for_its_last_tokens(text: list[int], cut: int) -> None:
    lookup = TextLookup()
    lookup.extend(text[:cut])
    lookup.extend(text[cut:])
    assert lookup.find() == latest_earlier(text)


def test_bytes_of_two_tokens_are_no_token() -> None:
    lookup = TextLookup()
    shifted = [token << 8 for token in (7, 8, 9)]
    lookup.extend([*shifted, 0, 5, 7, 8, 9])
    assert lookup.find() is None


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(first=texts, second=texts, removed=st.booleans())
def test_the_latest_text_counts(first: list[int], second: list[int], removed: bool) -> None:
    index = NgramIndex()
    one, two = [*START, *first], [*START, *second]
    index.add(one, len(START))
    index.add(two, len(START))
    if removed:
        index.remove(two)
    own = [*START, 1, 2, 3]
    in_one, in_two = (own[-3:] in _ngrams(text) for text in (one, two))
    # A removed text takes along the n-grams in which it replaced another.
    expected = None if in_two and removed else two if in_two else one if in_one else None
    found = index.find(own)
    assert (found and found.text) is expected
    if found is not None:
        assert found.text[found.at - 3 : found.at] == own[-3:]


def _ngrams(text: list[int]) -> list[list[int]]:
    return [text[at - 3 : at] for at in range(3, len(text))]


def test_a_text_does_not_find_itself() -> None:
    index, text = NgramIndex(), [*START, 1, 2, 3, 4]
    index.add(text, 3)
    assert index.find(text[:3]) is not None
    text[-1:] = [1, 2, 3]
    index.add(text, 3)
    assert index.find(text) is None
    index.remove(text)
    index.remove([*START, 1, 2, 3, 4])
    assert not len(index) or index.find(START) is None


def test_a_trail_is_followed_and_found_again_behind_a_value() -> None:
    trail = Trail([1, 2, 3, 40, 41, 5, 6], 1)
    assert trail.follow([2, 3])
    assert (trail.at, trail.agreed_tokens) == (3, 2)
    assert not trail.follow([70])
    assert not trail.realign(70)
    assert trail.realign(5)
    assert trail.text[trail.at :] == [6]
    assert trail.agreed_tokens == 0


def test_a_text_that_repeats_itself_goes_on_doing_so() -> None:
    assert continuation([9, 1, 2, 3], 1, 7) == [1, 2, 3, 1, 2, 3, 1]
    assert continuation([9, 1, 2, 3], 0, 2) == [9, 1]
    assert continuation([9], 1, 5) == []


def test_a_site_keeps_its_last_outputs() -> None:
    site = SiteOutputs()
    for number in range(40):
        text = site.open()
        site.extend(text, [number] * (SITE_TOKENS // 10))
        site.close(text)
    assert site.ended_tokens <= SITE_TOKENS
    beginning = site.find_ended(site.open())
    assert beginning is not None
    assert beginning.text[beginning.at] == 39
    assert site.find_ended([0, 0, 0]) is None  # dropped
    assert site.find_open([39, 39, 39]) is None  # ended


def test_an_open_output_is_a_siblings() -> None:
    site = SiteOutputs()
    ahead, behind = site.open(), site.open()
    site.extend(ahead, [1, 2, 3, 4])
    site.extend(behind, [1, 2])
    found = site.find_open(behind)
    assert found is not None
    assert found.text is ahead
    assert found.text[found.at :] == [3, 4]


def test_sites_are_apart_by_salt_and_bounded() -> None:
    outputs = OutputsBySite()
    mine = outputs.of("one", "site")
    assert outputs.of("one", "site") is mine
    assert outputs.of("two", "site") is not mine
    for number in range(MAX_SITES):
        outputs.of("", str(number))
    assert outputs.of("one", "site") is not mine
