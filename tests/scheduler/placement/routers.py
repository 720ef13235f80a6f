"""Ways to place requests: the placer, and what fleets do without one."""

import itertools
import zlib
from collections.abc import Sequence

from agentrt.scheduler.placement.placer import Placer
from agentrt.scheduler.placement.prefix_map import PrefixMap
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts
from tests.scheduler.placement.fleet_play import Router
from tests.scheduler.placement.fleet_workload import BLOCK_BYTES, TOKEN_BYTES, Ask
from tests.scheduler.placement.scripted_worker import ScriptedWorker, Serving

Workers = Sequence[ScriptedWorker]


class _Forgetful(Router):
    """A router that keeps no account of requests."""

    def computed(self, serving: Serving) -> None:
        pass

    def end(self, serving: Serving) -> None:
        pass

    def end_run(self, run_id: str) -> None:
        pass


class RoundRobin(_Forgetful):
    """Workers take turns."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        return next(self._turns) % len(workers)


class FewestRequests(_Forgetful):
    """The worker with the fewest requests."""

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        return min(range(len(workers)), key=lambda one: workers[one].requests)


class PrefixHash(_Forgetful):
    """Pure affinity: a hash of the first 256 tokens."""

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        return zlib.crc32(ask.key[: 256 * TOKEN_BYTES]) % len(workers)


class SessionHash(_Forgetful):
    """A sticky session: a hash of the program."""

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        return zlib.crc32(ask.run_id.encode()) % len(workers)


class CacheAware(_Forgetful):
    """The longest prefix from half of the prompt on, else the emptiest map; counts balance.

    The rule of the router of SGLang with its thresholds: 64 requests and 1.5 times.
    """

    def __init__(self, workers: int, kv_tokens: int) -> None:
        self._map = PrefixMap(TOKEN_BYTES, BLOCK_BYTES)
        self._names = [str(number) for number in range(workers)]
        for name in self._names:
            self._map.add(name, kv_tokens)

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        counts = [worker.requests for worker in workers]
        matched = self._map.match(ask.key)
        best = max(matched, key=lambda name: matched[name], default="")
        if max(counts) - min(counts) > 64 and max(counts) > 1.5 * min(counts):
            chosen = counts.index(min(counts))
        elif best and matched[best] > len(ask.key) / 2:
            chosen = int(best)
        else:
            chosen = int(min(self._names, key=self._map.held_tokens))
        self._map.settle(self._map.record(str(chosen), ask.key))
        return chosen


class Placed(Router):
    """The placer.

    Args:
        workers: Number of workers.
        kv_tokens: Size of the KV cache of each, as it is told.
    """

    def __init__(self, workers: int, kv_tokens: int) -> None:
        self.placer = Placer(TokenCosts(), bytes_per_token=TOKEN_BYTES, block_bytes=BLOCK_BYTES)
        for number in range(workers):
            self.placer.add(str(number), kv_tokens=kv_tokens)

    def place(self, number: int, ask: Ask, workers: Workers) -> int:
        request = PlacementRequest(ask.key, ask.prompt_tokens, ask.learned_tokens, ask.run_id)
        found = self.placer.place(request)
        assert found is not None
        self.placer.send(number, request, found.worker)
        return int(found.worker)

    def computed(self, serving: Serving) -> None:
        self.placer.computed(serving.number)

    def end(self, serving: Serving) -> None:
        self.placer.end(
            serving.number,
            cached_share=serving.cached_tokens / serving.ask.prompt_tokens,
            output_key=serving.ask.output_key,
        )

    def end_run(self, run_id: str) -> None:
        self.placer.end_run(run_id)
