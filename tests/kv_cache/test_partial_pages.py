"""Partial pages: tokens within a page are found, and their pages go the way of others."""

from agentrt.kv_cache import EvictionPriority, PagePool, RadixTree, key_of

PAGE = 4


def put(tree, pool, tokens):
    """A sequence that ends with a page."""
    return tree.insert(key_of(tokens), pool.allocate(len(tokens) // PAGE))


def leave(tree, pool, tokens):
    """A sequence that ends within a page."""
    full = len(tokens) // PAGE * PAGE
    node = put(tree, pool, tokens[:full]).node if full else tree.root
    (page,) = pool.allocate(1)
    assert tree.keep_partial(node, key_of(tokens[full:]), page)
    return page


def test_tokens_within_a_page_are_found_where_most_agree():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    node = put(tree, pool, range(4)).node
    leave(tree, pool, [0, 1, 2, 3, 4])
    longer = leave(tree, pool, [0, 1, 2, 3, 5, 6])
    whole = put(tree, pool, [0, 1, 2, 3, 7, 8, 9, 10]).pages[1]
    asked = ([5, 6, 7], [5, 9], [7, 8, 9, 11], [8], [4])
    found = [tree.match_partial(node, key_of(rest)) for rest in asked]
    pages = [None if one is None else (one.page, one.tokens) for one in found[:4]]
    assert pages == [(longer, 2), (longer, 1), (whole, 3), None]
    assert tree.look_up(key_of([0, 1, 2, 3, 7, 8, 9, 11, 12])).partial_tokens == 3


def test_a_page_with_the_same_tokens_replaces_a_partial_one():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    leave(tree, pool, [0, 1, 2, 3, 4])
    leave(tree, pool, [0, 1, 2, 3, 4, 5])
    assert pool.tree_pages == 2
    (page,) = pool.allocate(1)
    node = tree.match_prefix(key_of(range(5))).node
    assert not tree.keep_partial(node, key_of([4]), page), "the tree has it"
    pool.free([page])
    put(tree, pool, range(8))
    assert pool.tree_pages == 2


def test_what_replaces_a_kept_partial_page_is_kept():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    leave(tree, pool, range(6))
    tree.set_priority(key_of(range(6)), EvictionPriority.KEEP, reuse_by_s=9.0)
    put(tree, pool, range(100, 104))
    put(tree, pool, range(8))
    tree.evict(1)
    assert tree.look_up(key_of(range(8))).partial_tokens == 3
    tree.now_s = 10.0
    tree.expire_keeps(key_of(range(8)))
    assert not [one for one in tree.nodes() if one.priority is EvictionPriority.KEEP]


def test_a_lent_page_goes_with_its_sequence():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    (page,) = pool.allocate(1)
    lent = tree.lend_partial(tree.root, key_of([1, 2]), page)
    assert lent is not None
    assert tree.evict(8) == 0
    found = tree.match_partial(tree.root, key_of([1, 2, 3]))
    assert found is not None
    assert (found.page, found.tokens) == (page, 2)
    tree.take_back(lent)
    assert tree.match_partial(tree.root, key_of([1, 2, 3])) is None
    pool.free([page])


def test_dropping_a_prefix_drops_the_page_it_ends_in():
    for end in (8, 9, 10):  # at the page, within it, and behind what was computed
        pool = PagePool(8)
        tree = RadixTree(pool, PAGE)
        leave(tree, pool, range(10))
        assert tree.set_priority(key_of(range(end)), EvictionPriority.DROP)
        assert {one.priority for one in tree.nodes()} == {EvictionPriority.DROP}
