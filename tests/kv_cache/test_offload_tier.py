"""The lower tier keeps what the upper one gives up, whole, and within its pages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.kv_cache import EvictionPriority, OffloadTier, PagePool, RadixTree, key_of

PAGE = 2
PREFIX = [5, 6, 7, 8, 9, 10, 11, 12]


class Copies:
    """Two memories; a page's content is what was last written or copied there."""

    def __init__(self):
        self.upper, self.lower = {}, {}

    def save(self, upper, lower):
        for here, there in zip(upper, lower, strict=True):
            self.lower[there] = self.upper[here]

    def load(self, lower, upper):
        for here, there in zip(lower, upper, strict=True):
            self.upper[there] = self.lower[here]


def tiers(upper_pages, lower_pages):
    copies = Copies()
    pool = PagePool(upper_pages)
    tree = RadixTree(pool, PAGE)
    tier = OffloadTier(lower_pages, PAGE, copies)
    tree.before_eviction = lambda evicted: tier.save(evicted.key, evicted.pages)
    return tree, pool, tier, copies


def write(tree, pool, copies, tokens):
    """Compute a prefix: its pages hold the tokens up to their end."""
    match = tree.match_prefix(key_of([*tokens, 0]))
    own = pool.allocate(len(tokens) // PAGE - len(match.pages))
    pages = [*match.pages, *own]
    for at, page in enumerate(pages):
        copies.upper[page] = tuple(tokens[: (at + 1) * PAGE])
    return tree.insert(key_of(tokens), pages)


def test_what_is_evicted_comes_back():
    tree, pool, tier, copies = tiers(8, 8)
    write(tree, pool, copies, PREFIX)
    tree.evict(3)
    assert tier.saved_pages == 4, "the whole prefix, or its end could never be reached"
    key = key_of([*PREFIX, 1])
    assert tree.matched_tokens(key) == 2
    assert tier.matched_tokens(key) == 8
    taken = pool.allocate(3)
    tier.load(key, 1, taken)
    assert [copies.upper[page] for page in taken] == [tuple(PREFIX[:end]) for end in (4, 6, 8)]


def test_what_is_there_is_not_copied_again():
    tree, pool, tier, copies = tiers(8, 8)
    write(tree, pool, copies, PREFIX)
    tree.evict(1)
    tree.evict(1)
    assert tier.saved_pages == 4
    write(tree, pool, copies, [*PREFIX[:4], 1, 1])
    tree.evict(5)
    assert tier.saved_pages == 5


def test_what_nobody_can_reach_is_not_kept():
    tree, pool, tier, copies = tiers(8, 8)
    write(tree, pool, copies, PREFIX)
    tree.set_priority(key_of(PREFIX), EvictionPriority.DROP)
    tree.evict(4)
    assert tier.saved_pages == 0


def test_the_front_is_kept_where_not_all_fits():
    tree, pool, tier, copies = tiers(8, 3)
    write(tree, pool, copies, PREFIX)
    tree.evict(4)
    assert tier.matched_tokens(key_of([*PREFIX, 1])) == 6


def test_what_is_being_loaded_is_not_evicted():
    tree, pool, tier, copies = tiers(4, 4)
    write(tree, pool, copies, PREFIX)
    tree.evict(4)
    key = key_of([*PREFIX, 1])
    held = tier.lock(key)
    write(tree, pool, copies, [1, 2, 3, 4])
    tree.evict(2)
    assert tier.matched_tokens(key) == 8
    tier.unlock(held)
    tier.save(key_of([1, 2, 3, 4]), [0, 1])
    assert tier.matched_tokens(key) < 8


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 2), min_size=2, max_size=10),
            st.integers(1, 4),
        ),
        max_size=25,
    ),
    st.integers(2, 9),
)
def test_both_tiers_are_whole_and_true(actions, lower_pages):
    tree, pool, tier, copies = tiers(8, lower_pages)
    for action in actions:
        if isinstance(action, int):
            tree.evict(action)
            continue
        tokens = action[: len(action) // PAGE * PAGE]
        key = key_of([*tokens, 0])
        match = tree.match_prefix(key)
        tree.lock(match.node)
        more = tier.matched_tokens(key) // PAGE - len(match.pages)
        need = len(tokens) // PAGE - len(match.pages)
        if need <= pool.free_pages + tree.evictable_pages:
            held = tier.lock(key)
            tree.evict(need - pool.free_pages)
            if more > 0:
                taken = pool.allocate(more)
                tier.load(key, len(match.pages), taken)
                whole = len(match.pages) + more
                tree.insert(key_of(tokens[: whole * PAGE]), [*match.pages, *taken])
            tier.unlock(held)
            write(tree, pool, copies, tokens)
        tree.unlock(match.node)
        for nodes, content in ((tree, copies.upper), (tier.tree, copies.lower)):
            for node in nodes.nodes():
                path, pages = node.path()
                for at, page in enumerate(pages):
                    assert key_of(content[page]) == path[: (at + 1) * PAGE * 4]
        for one, its in ((pool, tree), (tier.pool, tier.tree)):
            assert one.owned_pages == 0
            assert one.free_pages + one.tree_pages == one.total_pages
            assert its.evictable_pages == sum(len(n.pages) for n in its.nodes() if not n.locks)
