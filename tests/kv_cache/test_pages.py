"""The pool of pages."""

import pytest

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId
from agentrt.kv_cache import PagePool


def test_pages_go_from_hand_to_hand():
    pool = PagePool(5)
    pages = pool.allocate(3)
    assert (pool.free_pages, pool.owned_pages, pool.tree_pages) == (2, 3, 0)
    pool.adopt_into_tree(pages[:2])
    pool.free(pages[2:])
    assert (pool.free_pages, pool.owned_pages, pool.tree_pages) == (3, 0, 2)
    pool.free_from_tree(pages[:2])
    assert sorted(pool.allocate(5)) == [0, 1, 2, 3, 4]


def test_taking_none_is_no_error():
    assert PagePool(0).allocate(0) == []


@pytest.mark.parametrize("wrong", ["free", "adopt_into_tree", "free_from_tree"])
def test_a_free_page_cannot_be_returned_again(wrong):
    with pytest.raises(InternalError, match="page 1 is free"):
        getattr(PagePool(2), wrong)([PageId(1)])


def test_more_than_there_are_cannot_be_taken():
    with pytest.raises(InternalError, match="3 pages taken where 2 are free"):
        PagePool(2).allocate(3)
