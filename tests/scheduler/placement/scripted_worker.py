"""A scripted worker: a batch that shares its time, and KV blocks that are evicted by LRU."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from agentrt.scheduler.placement.worker_load import TokenCosts
from tests.scheduler.placement.fleet_workload import BLOCK_TOKENS, Ask

SLOTS = 16
_DONE_S = 1e-9


@dataclass(slots=True, eq=False)
class Serving:
    """A request at a worker.

    Attributes:
        number: Number of the request.
        ask: The request.
        prefill_s: Work left of its prompt.
        decode_s: Work left of its output.
        cached: Blocks of its prompt that were found.
        computed: Whether its prompt has been computed.
    """

    number: int
    ask: Ask
    prefill_s: float = 0.0
    decode_s: float = 0.0
    cached: int = 0
    computed: bool = False

    @property
    def cached_tokens(self) -> int:
        return self.cached * BLOCK_TOKENS


class BlockCache:
    """KV blocks: those in use are pinned, the others are evicted least recently used first.

    Args:
        capacity: Number of blocks.
    """

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._pins: dict[int, int] = {}
        self._unused: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._pins or block in self._unused

    def begin(self, ask: Ask) -> int | None:
        """Pin the blocks of a prompt that are here and set others aside; None if they do not fit.

        Returns:
            Number of blocks of the prompt that were here.
        """
        here = 0
        while here < len(ask.blocks) and ask.blocks[here] in self:
            here += 1
        idle = sum(block in self._unused for block in ask.blocks[:here])
        needed = len(ask.output) - here
        if needed > self._free + len(self._unused) - idle:
            return None
        for block in ask.blocks[:here]:
            self._pin(block)
        while self._free < needed:
            self._unused.popitem(last=False)
            self._free += 1
        self._free -= needed
        return here

    def publish(self, blocks: tuple[int, ...], begin: int) -> None:
        """Let others find blocks from `begin` on; a block that is here already is freed."""
        for block in blocks[begin:]:
            self._free += block in self
            self._pin(block)

    def end(self, blocks: tuple[int, ...]) -> None:
        """Unpin the blocks of a request; its last one is the first to be evicted."""
        for block in reversed(blocks):
            self._pins[block] -= 1
            if not self._pins[block]:
                del self._pins[block]
                self._unused[block] = None

    def _pin(self, block: int) -> None:
        self._unused.pop(block, None)
        self._pins[block] = self._pins.get(block, 0) + 1


class ScriptedWorker:
    """Serves up to `SLOTS` requests at once, which share its time equally; others wait in order.

    Args:
        kv_tokens: Size of its KV cache.
        costs: Work of tokens.
    """

    def __init__(self, kv_tokens: int, costs: TokenCosts) -> None:
        self.cache = BlockCache(kv_tokens // BLOCK_TOKENS)
        self.prefilled_tokens = 0
        self.now_s = 0.0
        self._costs = costs
        self._batch: list[Serving] = []
        self._queue: deque[Serving] = deque()

    @property
    def requests(self) -> int:
        """Requests that it computes or that wait."""
        return len(self._batch) + len(self._queue)

    def holds(self, ask: Ask) -> bool:
        """Whether the KV of the prompt that a request continues stands here."""
        return ask.blocks[ask.parent_blocks - 1] in self.cache

    def lacking_tokens(self, ask: Ask) -> int:
        """Tokens of a prompt whose KV does not stand here."""
        here = 0
        while here < len(ask.blocks) and ask.blocks[here] in self.cache:
            here += 1
        return ask.prompt_tokens - here * BLOCK_TOKENS

    def add(self, serving: Serving) -> None:
        """Take a request."""
        self._queue.append(serving)
        self._admit()

    def next_s(self) -> float | None:
        """Instant at which the next prompt or output is computed; None if there is none."""
        if not self._batch:
            return None
        left_s = min(one.decode_s if one.computed else one.prefill_s for one in self._batch)
        return self.now_s + max(0.0, left_s) * len(self._batch)

    def advance(self, now_s: float) -> Iterator[Serving]:
        """Compute until an instant; gives requests whose prompt, or whose output, is computed."""
        passed_s, self.now_s = now_s - self.now_s, now_s
        if not self._batch:
            return
        share_s = passed_s / len(self._batch)
        for one in self._batch:
            if one.computed:
                one.decode_s -= share_s
            else:
                one.prefill_s -= share_s
        for one in list(self._batch):
            if not one.computed and one.prefill_s <= _DONE_S:
                one.computed = True
                self.cache.publish(one.ask.blocks, one.cached)
                yield one
            elif one.computed and one.decode_s <= _DONE_S:
                self.cache.publish(one.ask.output, len(one.ask.blocks))
                self.cache.end(one.ask.output)
                self._batch.remove(one)
                yield one
        self._admit()

    def _admit(self) -> None:
        while self._queue and len(self._batch) < SLOTS:
            one = self._queue[0]
            cached = self.cache.begin(one.ask)
            if cached is None:
                return
            self._queue.popleft()
            tokens = max(1, one.ask.prompt_tokens - cached * BLOCK_TOKENS)
            self.prefilled_tokens += tokens
            one.cached, one.prefill_s = cached, self._costs.work_s(tokens, 0)
            one.decode_s = self._costs.work_s(0, one.ask.output_tokens)
            self._batch.append(one)
