"""A prefix map block by block: slow, and simple enough to be right by inspection."""

from collections import defaultdict

BLOCK = 4


class NaiveMap:
    """Blocks of each worker, by all bytes of the prompt up to their end, with their last use."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.blocks: dict[str, dict[bytes, int]] = defaultdict(dict)
        self.tick = 0

    def record(self, worker: str, key: bytes) -> None:
        self.tick += 1
        for end in range(BLOCK, len(key) + 1, BLOCK):
            self.blocks[worker][key[:end]] = self.tick
        held = self.blocks[worker]
        while len(held) * BLOCK > self.limit_bytes:
            del held[min(held, key=lambda prefix: (held[prefix], -len(prefix)))]

    def match(self, key: bytes) -> dict[str, int]:
        found = {}
        for worker, held in self.blocks.items():
            ends = range(BLOCK, len(key) + 1, BLOCK)
            found[worker] = max((end for end in ends if key[:end] in held), default=0)
        return {worker: same for worker, same in found.items() if same}

    def cut(self, worker: str, key: bytes, keep: int) -> None:
        """Drop the first block of `key` that ends behind `keep` bytes, and what continues it."""
        first = key[: keep - keep % BLOCK + BLOCK]
        if len(first) % BLOCK == 0 and len(first) > keep:
            held = self.blocks[worker]
            self.blocks[worker] = {
                prefix: tick for prefix, tick in held.items() if not prefix.startswith(first)
            }

    def forget(self, worker: str) -> None:
        self.blocks.pop(worker, None)

    def held_bytes(self, worker: str) -> int:
        return BLOCK * len(self.blocks[worker])
