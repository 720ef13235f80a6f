"""Whatever sequences do, in whatever order, no page is lost and none has two owners."""

from array import array
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrt.base.ids import PageId
from agentrt.kv_cache import EvictionPriority, PagePool, RadixNode, RadixTree, key_of
from agentrt.kv_cache.node import TOKEN_BYTES, common_bytes

TOTAL = 24
TOKEN = st.integers(0, 2)  # few, so that prefixes coincide


@dataclass
class Runner:
    tokens: list[int]
    pages: list[PageId]
    node: RadixNode
    tree_pages: int
    lent: RadixNode | None = None


class Sequences(RuleBasedStateMachine):
    """Sequences that come, compute, publish and go, over a pool that is too small."""

    @initialize(page=st.sampled_from([1, 2, 4]))
    def begin(self, page):
        self.page = page
        self.pool = PagePool(TOTAL)
        self.tree = RadixTree(self.pool, page)
        self.runners: list[Runner] = []
        self.seen = {}
        self.content = {}  # page -> the tokens up to its end, whose KV it holds

    def _room(self, pages):
        short = pages - self.pool.free_pages
        return short <= 0 or self.tree.evict(short) >= short

    @rule(tokens=st.lists(TOKEN, min_size=1, max_size=14))
    def admit(self, tokens):
        match = self.tree.match_prefix(key_of(tokens))
        assert match.matched_tokens <= len(tokens) - 1
        assert match.matched_tokens == len(match.pages) * self.page
        self._check_partial(match.node, tokens, match.matched_tokens)
        for index, page in enumerate(match.pages):
            assert self.content[page] == tuple(tokens[: (index + 1) * self.page])
        self.tree.lock(match.node)
        need = -(-len(tokens) // self.page) - len(match.pages)
        if need > self.pool.free_pages + self.tree.evictable_pages:
            self.tree.unlock(match.node)
            return
        assert self._room(need)
        own = self.pool.allocate(need)
        self._written(tokens, match.pages + own)
        self.runners.append(Runner(tokens, match.pages + own, match.node, len(match.pages)))

    def _check_partial(self, node, tokens, known):
        """The page to copy holds the tokens that it is said to hold, and none holds more."""
        partial = self.tree.match_partial(node, key_of(tokens[known:-1]))
        found = known + (0 if partial is None else partial.tokens)
        if partial is not None:
            assert 0 < partial.tokens < self.page
            assert self.content[partial.page][:found] == tuple(tokens[:found])
        assert found == self._longest_known(tokens[:-1])

    def _longest_known(self, tokens):
        key = key_of(tokens)
        paths = (node.path()[0] for node in self.tree.nodes())
        return max(
            (common_bytes(path, key, TOKEN_BYTES) // TOKEN_BYTES for path in paths), default=0
        )

    def _written(self, tokens, pages):
        for index in range(-(-len(tokens) // self.page)):
            self.content[pages[index]] = tuple(tokens[: (index + 1) * self.page])

    @precondition(lambda self: self.runners)
    @rule(data=st.data(), more=st.lists(TOKEN, min_size=1, max_size=5))
    def decode(self, data, more):
        runner = data.draw(st.sampled_from(self.runners))
        tokens = runner.tokens + more
        need = -(-len(tokens) // self.page) - len(runner.pages)
        if self._room(need):
            runner.pages += self.pool.allocate(need)
            runner.tokens = tokens
            self._written(tokens, runner.pages)

    @precondition(lambda self: self.runners)
    @rule(data=st.data())
    def publish(self, data):
        self._publish(data.draw(st.sampled_from(self.runners)))

    def _publish(self, runner):
        full = len(runner.tokens) // self.page
        key = key_of(runner.tokens[: full * self.page])
        inserted = self.tree.insert(key, runner.pages[:full])
        self.tree.lock(inserted.node)
        self.tree.unlock(runner.node)
        for index, page in enumerate(inserted.pages):
            assert self.content[page] == tuple(runner.tokens[: (index + 1) * self.page])
        runner.pages[:full] = inserted.pages
        runner.node, runner.tree_pages = inserted.node, full

    def _partial(self, runner):
        """Key of the tokens in the last page, unless that is full, and the page."""
        begin = runner.tree_pages * self.page
        tokens = runner.tokens[begin:]
        is_partial = 0 < len(tokens) < self.page
        return (key_of(tokens), runner.pages[runner.tree_pages]) if is_partial else None

    @precondition(lambda self: self.runners)
    @rule(data=st.data())
    def lend(self, data):
        runner = data.draw(st.sampled_from(self.runners))
        self._publish(runner)
        is_lent = runner.lent is not None and runner.lent.parent is not None
        if not is_lent and (partial := self._partial(runner)):
            runner.lent = self.tree.lend_partial(runner.node, *partial)

    @precondition(lambda self: self.runners)
    @rule(data=st.data(), keeps=st.booleans())
    def leave(self, data, keeps):
        runner = data.draw(st.sampled_from(self.runners))
        if keeps:
            self._publish(runner)
        if runner.lent is not None:
            self.tree.take_back(runner.lent)
        own = runner.tree_pages
        partial = self._partial(runner) if keeps else None
        if partial and self.tree.keep_partial(runner.node, *partial):
            own += 1
        self.pool.free(runner.pages[own:])
        self.tree.unlock(runner.node)
        self.runners.remove(runner)

    @rule(pages=st.integers(1, 6))
    def evict(self, pages):
        before = self.tree.evictable_pages
        freed = self.tree.evict(pages)
        assert freed == min(pages, before)

    @rule(
        tokens=st.lists(TOKEN, max_size=9),
        what=st.sampled_from(list(EvictionPriority)),
        reuse_by_s=st.none() | st.floats(0, 100),
        from_tokens=st.integers(0, 9),
    )
    def hint(self, tokens, what, reuse_by_s, from_tokens):
        self.tree.set_priority(key_of(tokens), what, reuse_by_s=reuse_by_s, from_tokens=from_tokens)
        self.tree.expire_keeps(key_of(tokens))

    @rule(tokens=st.lists(TOKEN, min_size=1, max_size=14))
    def look(self, tokens):
        self.seen[key_of(tokens)] = self.tree.look_up(key_of(tokens))

    @rule(seconds=st.floats(0, 50))
    def time_passes(self, seconds):
        self.tree.now_s += seconds

    @invariant()
    def every_page_has_one_place(self):
        pool = self.pool
        assert pool.free_pages + pool.tree_pages + pool.owned_pages == TOTAL
        in_tree = [p for node in self.tree.nodes() if not node.is_lent for p in node.pages]
        lent = {page for node in self.tree.nodes() if node.is_lent for page in node.pages}
        own = [page for one in self.runners for page in one.pages[one.tree_pages :]]
        assert len(in_tree) == len(set(in_tree)) == pool.tree_pages
        assert len(own) == len(set(own)) == pool.owned_pages
        assert not set(in_tree) & set(own)
        assert lent <= set(own)
        if not self.runners:
            assert pool.owned_pages == 0

    @invariant()
    def what_was_seen_is_so_or_is_known_to_have_changed(self):
        for key, seen in self.seen.items():
            now = self.tree.look_up(key)
            assert not seen.is_current or now == seen
            found = now.matched_tokens + now.partial_tokens
            assert found == self._longest_known([*array("i", key)][:-1])

    @invariant()
    def locks_and_keys_are_in_order(self):
        evictable = 0
        for node in self.tree.nodes():
            assert node.parent is not None
            whole = len(node.pages) * self.page * TOKEN_BYTES
            is_partial = len(node.pages) == 1 and not node.children and not node.locks
            assert len(node.key) == whole or (is_partial and 0 < len(node.key) < whole)
            assert node.first_pages == sorted(node.children)
            assert node.parent.children[node.key[: self.page * 4]] is node
            if node.parent is not self.tree.root:
                assert node.parent.locks >= node.locks
            if node.locks == 0 and not node.is_lent:
                evictable += len(node.pages)
        assert evictable == self.tree.evictable_pages


TestSequences = Sequences.TestCase
TestSequences.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
