"""Time that a placement takes: `python -m tests.scheduler.placement.placing_time`.

The map of eight workers holds a million tokens, of prompts that share prefixes. Each prompt placed
has 8,192 tokens and continues one of them.
"""

import random
from statistics import quantiles
from time import perf_counter_ns

from agentrt.scheduler.placement.placer import Placer
from agentrt.scheduler.placement.worker_load import PlacementRequest

WORKERS = 8
MAP_TOKENS = 1_000_000
PROMPT_TOKENS = 8192
TOKEN_BYTES = 4
PLACED = 2000


def full_placer(draw: random.Random) -> tuple[Placer, list[bytes]]:
    """A placer with `MAP_TOKENS` in its map, and the prompts that it was sent."""
    placer = Placer(bytes_per_token=TOKEN_BYTES)
    names = [str(number) for number in range(WORKERS)]
    for name in names:
        placer.add(name)
    shared = [draw.randbytes(PROMPT_TOKENS // 2 * TOKEN_BYTES) for _ in range(20)]
    sent: list[bytes] = []
    while sum(placer.prefixes.held_tokens(name) for name in names) < MAP_TOKENS:
        key = draw.choice(shared) + draw.randbytes(draw.randrange(1000, 3500) * TOKEN_BYTES)
        placer.send(len(sent), PlacementRequest(key, len(key) / TOKEN_BYTES), draw.choice(names))
        placer.end(len(sent))
        sent.append(key)
    return placer, sent


def main() -> None:
    draw = random.Random(0)
    placer, sent = full_placer(draw)
    placing_us: list[float] = []
    sending_us: list[float] = []
    for number in range(len(sent), len(sent) + PLACED):
        key = draw.choice(sent)
        key += draw.randbytes(PROMPT_TOKENS * TOKEN_BYTES - len(key))
        request = PlacementRequest(key, PROMPT_TOKENS, 100.0)
        begin_ns = perf_counter_ns()
        found = placer.place(request)
        placed_ns = perf_counter_ns()
        assert found is not None
        placer.send(number, request, found.worker)
        placer.end(number)
        sending_us.append((perf_counter_ns() - placed_ns) / 1e3)
        placing_us.append((placed_ns - begin_ns) / 1e3)
    for name, times in (("placing", placing_us), ("sending and ending", sending_us)):
        cuts = quantiles(times, n=100)
        print(f"{name}: p50 {cuts[49]:.1f} us, p95 {cuts[94]:.1f} us, {PLACED} prompts")


if __name__ == "__main__":
    main()
