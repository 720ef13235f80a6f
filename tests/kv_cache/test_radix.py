"""The radix tree: what is shared, what is split, what goes first."""

from sys import getrefcount

import pytest

from agentrt.kv_cache import EvictionPriority, PagePool, RadixTree, key_of
from tests.line_count import Lines

PAGE = 4


def put(tree, pool, tokens):
    pages = pool.allocate(len(tokens) // PAGE)
    return tree.insert(key_of(tokens), pages)


def test_a_match_is_whole_pages_and_leaves_one_token():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    stored = put(tree, pool, range(12))
    assert (
        tree.match_prefix(key_of(range(12))).matched_tokens == 8
    )  # the last token has to be computed
    found = tree.match_prefix(key_of(range(13)))
    assert (found.matched_tokens, found.pages) == (12, stored.pages)
    assert tree.match_prefix(key_of([*range(10), 99, 98, 97])).matched_tokens == 8
    assert tree.match_prefix(key_of([7, 8, 9, 10, 11])).matched_tokens == 0


def test_looking_changes_nothing():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(16))
    assert tree.matched_tokens(key_of([*range(8), *range(50, 58)])) == 8
    assert len(list(tree.nodes())) == 1


def test_what_was_seen_stays_so_while_others_come_and_go():
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    first = put(tree, pool, range(8)).node
    tree.lock(first)
    put(tree, pool, range(100, 108))
    whole = tree.look_up(key_of([*range(8), *range(50, 58)]))
    part = tree.look_up(key_of([*range(4), *range(60, 68)]))
    other = tree.look_up(key_of(range(100, 112)))
    put(tree, pool, range(200, 208))
    assert whole.is_current
    assert part.is_current
    assert other.is_current
    assert tree.evict(1) == 1  # of the others, the one that was there first
    assert not other.is_current
    assert whole.is_current
    put(tree, pool, [*range(8), *range(70, 78)])  # goes on where the first one ended
    assert not whole.is_current
    part = tree.look_up(key_of([*range(4), *range(60, 68)]))
    put(tree, pool, [*range(4), *range(60, 64)])  # parts from the others where the second one did
    assert not part.is_current


def test_a_split_keeps_locks_on_both_halves():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    long = put(tree, pool, range(16))
    tree.lock(long.node)
    assert tree.evictable_pages == 0
    put(tree, pool, [*range(8), *range(50, 58)])
    assert sorted(node.locks for node in tree.nodes()) == [0, 1, 1]
    assert tree.evictable_pages == 2
    tree.unlock(long.node)
    assert tree.evictable_pages == 6


def test_what_was_known_already_is_given_back():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    first = put(tree, pool, range(8))
    again = put(tree, pool, range(12))
    assert again.duplicate_pages == 2
    assert again.pages[:2] == first.pages
    assert pool.free_pages == 8 - 3
    assert pool.owned_pages == 0


def test_forks_share_all_full_pages():
    pool = PagePool(64)
    tree = RadixTree(pool, PAGE)
    prefix = put(tree, pool, range(40))
    tree.lock(prefix.node)
    for branch in range(8):
        found = tree.match_prefix(key_of([*range(42), 100 + branch]))
        assert found.pages == prefix.pages
        assert found.node is prefix.node
    assert pool.tree_pages == 10


def test_the_least_recently_used_leaf_goes_first_and_from_its_end():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(8))
    put(tree, pool, range(100, 108))
    tree.match_prefix(key_of(range(9)))  # used again
    assert tree.evict(1) == 1
    assert tree.matched_tokens(key_of(range(100, 109))) == 4
    assert tree.matched_tokens(key_of(range(9))) == 8
    assert tree.evict(2) == 2
    assert tree.matched_tokens(key_of(range(100, 109))) == 0
    assert tree.matched_tokens(key_of(range(9))) == 4


def test_a_locked_prefix_stays_and_what_hangs_below_goes():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(8))
    found = tree.match_prefix(key_of(range(5)))
    tree.lock(found.node)
    assert tree.evict(8) == 1
    assert tree.matched_tokens(key_of(range(9))) == 4
    tree.unlock(found.node)
    assert tree.evict(8) == 1
    assert pool.free_pages == 8


@pytest.mark.parametrize(
    ("hint", "survivor"),
    [(EvictionPriority.DROP, "old"), (EvictionPriority.KEEP, "new"), (None, "new")],
)
def test_hints_come_before_age(hint, survivor):
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(4))
    put(tree, pool, range(100, 104))
    if hint is not None:
        assert tree.set_priority(key_of(range(100, 104)), hint)
    tree.evict(1)
    left = {"old": range(5), "new": range(100, 105)}
    assert tree.matched_tokens(key_of(left[survivor])) == 4
    assert pool.tree_pages == 1


def test_a_dropped_prefix_that_is_used_again_is_not_dropped():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(4))
    tree.set_priority(key_of(range(4)), EvictionPriority.DROP)
    tree.match_prefix(key_of(range(5)))
    put(tree, pool, range(100, 104))
    tree.match_prefix(key_of(range(5)))
    tree.evict(1)
    assert tree.matched_tokens(key_of(range(5))) == 4


def test_dropping_a_prefix_leaves_what_continues_it():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(12))
    put(tree, pool, range(100, 104))
    assert not tree.set_priority(key_of(range(4)), EvictionPriority.DROP)
    assert not tree.set_priority(key_of(range(3)), EvictionPriority.DROP)
    assert len(list(tree.nodes())) == 2


def test_many_siblings_do_not_swell_the_heap():
    pool = PagePool(600)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(4))
    (leaf,) = tree.nodes()
    for _ in range(3000):
        tree.match_prefix(key_of(range(5)))
    assert getrefcount(leaf) < 200, "each entry of the heap refers to its leaf"
    assert tree.evict(1) == 1


def test_dropping_what_is_gone_leaves_what_it_grew_from():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(8))
    assert not tree.set_priority(key_of(range(20)), EvictionPriority.DROP)
    assert tree.set_priority(key_of(range(12)), EvictionPriority.DROP)


def test_a_drop_spares_what_others_go_on_from():
    """Of a chain of nodes only what leads to the dropped end alone is marked."""
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    for end in (8, 12, 20, 28):  # prefilled in chunks, then decoded: a node each
        put(tree, pool, range(end))
    put(tree, pool, [*range(12), *range(50, 54)])
    assert tree.set_priority(key_of(range(29)), EvictionPriority.DROP)
    marked = {len(node.pages) for node in tree.nodes() if node.priority is EvictionPriority.DROP}
    dropped = sum(len(n.pages) for n in tree.nodes() if n.priority is EvictionPriority.DROP)
    assert (marked, dropped) == ({2}, 4)
    tree.evict(4)
    assert tree.matched_tokens(key_of(range(29))) == 12
    assert tree.matched_tokens(key_of([*range(12), *range(50, 55)])) == 16


@pytest.mark.parametrize("from_tokens", [0, 8, 9, 12, 14, 28])
def test_a_drop_is_of_what_stands_behind(from_tokens):
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    for end in (12, 28):
        put(tree, pool, range(end))
    put(tree, pool, range(100, 104))
    tree.set_priority(key_of(range(28)), EvictionPriority.DROP, from_tokens=from_tokens)
    spared = -(-from_tokens // PAGE)
    marked = [node for node in tree.nodes() if node.priority is EvictionPriority.DROP]
    assert sum(len(node.pages) for node in marked) == 7 - spared
    tree.evict(7 - spared)
    assert tree.matched_tokens(key_of(range(29))) == spared * PAGE
    assert tree.matched_tokens(key_of(range(100, 105))) == 4


def test_a_drop_spares_what_somebody_computes_on_or_will_be_back_for():
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    for end in (4, 8, 12):
        put(tree, pool, range(end))
    tree.set_priority(key_of(range(4)), EvictionPriority.KEEP)
    tree.set_priority(key_of(range(12)), EvictionPriority.DROP)
    said = sorted((node.key, node.priority) for node in tree.nodes())
    assert [one for _, one in said] == [
        EvictionPriority.KEEP,
        EvictionPriority.DROP,
        EvictionPriority.DROP,
    ]
    running = tree.match_prefix(key_of(range(13)))
    tree.lock(running.node)
    assert not tree.set_priority(key_of(range(12)), EvictionPriority.DROP)


def test_what_slower_memory_has_goes_before_what_it_has_not():
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(4))
    put(tree, pool, range(100, 104))
    tree.set_priority(key_of(range(100, 104)), EvictionPriority.DEMOTED)
    put(tree, pool, range(200, 204))
    tree.set_priority(key_of(range(200, 204)), EvictionPriority.DROP)
    gone = []
    for _ in range(3):
        tree.evict(1)
        gone.append(
            [at for at in (0, 100, 200) if not tree.matched_tokens(key_of(range(at, at + 5)))]
        )
    assert gone == [[200], [100, 200], [0, 100, 200]]


def test_who_is_back_last_goes_first():
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    for start, reuse_by_s in ((0, 5.0), (100, 500.0), (200, 50.0)):
        put(tree, pool, range(start, start + 16))
        tree.set_priority(
            key_of(range(start, start + 16)), EvictionPriority.KEEP, reuse_by_s=reuse_by_s
        )
    order = []
    for _ in range(3):
        tree.evict(4)
        left = {at for at in (0, 100, 200) if tree.matched_tokens(key_of(range(at, at + 17)))}
        order.append(sorted({0, 100, 200} - left))
    assert order == [[100], [100, 200], [0, 100, 200]]


def test_a_kept_prefix_far_off_goes_before_what_was_used_just_now():
    pool = PagePool(16)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(32))
    tree.set_priority(key_of(range(32)), EvictionPriority.KEEP, reuse_by_s=1e5)
    put(tree, pool, range(100, 132))
    tree.evict(4)
    assert tree.matched_tokens(key_of(range(33))) == 16
    assert tree.matched_tokens(key_of(range(100, 133))) == 32


def test_what_was_begun_is_cut_further():
    """Whoever is back has to compute in any case: no second program is made to wait."""
    pool = PagePool(20)
    tree = RadixTree(pool, PAGE)
    for start in (0, 100):
        put(tree, pool, range(start, start + 32))
        tree.set_priority(key_of(range(start, start + 32)), EvictionPriority.KEEP, reuse_by_s=10.0)
    for _ in range(5):
        tree.evict(1)
    left = [tree.matched_tokens(key_of(range(at, at + 33))) for at in (0, 100)]
    assert sorted(left) == [12, 32]


def test_choosing_again_and_again_is_not_dear():
    """A page at a time, as sequences grow: among many that will be back few are looked at."""
    pool = PagePool(2000)
    tree = RadixTree(pool, PAGE)
    for at in range(150):
        tokens = [1000 + at] * 40
        put(tree, pool, tokens)
        if at % 2:
            tree.set_priority(key_of(tokens), EvictionPriority.KEEP, reuse_by_s=float(at))
    with Lines("kv_cache") as lines:
        for _ in range(1200):
            assert tree.evict(1) == 1
    assert 0 < lines.total() < 1200 * 250, "not all that are kept anew for each page"


def test_a_fork_whose_branches_are_all_dropped_goes_whole():
    pool = PagePool(32)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(16))
    branches = [[*range(16), *range(at, at + 8)] for at in (100, 200, 300)]
    for branch in branches:
        put(tree, pool, branch)
    for branch in branches:
        tree.set_priority(key_of(branch), EvictionPriority.DROP)
    assert all(node.priority is EvictionPriority.DROP for node in tree.nodes())
    put(tree, pool, [*range(16), *range(400, 408)])
    left = [node for node in tree.nodes() if node.priority is not EvictionPriority.DROP]
    assert len(left) == 2, "who goes on from it after all"


def test_of_several_that_will_be_back_the_last_one_counts():
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    put(tree, pool, range(8))
    for reuse_by_s in (5.0, 9.0, 7.0):
        tree.set_priority(key_of(range(8)), EvictionPriority.KEEP, reuse_by_s=reuse_by_s)
    (node,) = tree.nodes()
    assert node.reuse_by_s == 9.0
    for now_s, kept in ((8.0, EvictionPriority.KEEP), (9.0, EvictionPriority.NORMAL)):
        tree.now_s = now_s
        tree.expire_keeps(key_of(range(20)))
        assert node.priority is kept


def test_keeping_ends_all_along_the_way():
    """It was said of a part first, for the rest was not computed yet."""
    pool = PagePool(8)
    tree = RadixTree(pool, PAGE)
    for end in (8, 16):
        put(tree, pool, range(end))
        tree.set_priority(key_of(range(20)), EvictionPriority.KEEP, reuse_by_s=5.0)
    assert {node.priority for node in tree.nodes()} == {EvictionPriority.KEEP}
    tree.now_s = 5.0
    tree.expire_keeps(key_of(range(20)))
    assert {node.priority for node in tree.nodes()} == {EvictionPriority.NORMAL}
