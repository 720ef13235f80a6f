"""Placements side by side: `python -m tests.scheduler.placement.placement_table [--seed N]`."""

import argparse
from statistics import fmean, quantiles

from agentrt.scheduler.placement.worker_load import TokenCosts
from tests.scheduler.placement.fleet_play import FleetPlay, PlayFigures, Router
from tests.scheduler.placement.fleet_workload import fleet_programs
from tests.scheduler.placement.routers import (
    CacheAware,
    FewestRequests,
    Placed,
    PrefixHash,
    RoundRobin,
    SessionHash,
)
from tests.scheduler.placement.scripted_worker import ScriptedWorker

WORKERS = 8
PROGRAMS = 2000
LOAD = 0.75
KV_TOKENS = 60_000


def routers() -> dict[str, Router]:
    return {
        "round robin": RoundRobin(),
        "fewest requests": FewestRequests(),
        "hash of the prefix": PrefixHash(),
        "hash of the program": SessionHash(),
        "cache-aware, counts": CacheAware(WORKERS, KV_TOKENS),
        "placer": Placed(WORKERS, KV_TOKENS),
        "placer, KV unknown": Placed(WORKERS, 0),
    }


def figures_of(
    router: Router, programs: int = PROGRAMS, load: float = LOAD, seed: int = 0
) -> PlayFigures:
    costs = TokenCosts()
    workers = [ScriptedWorker(KV_TOKENS, costs) for _ in range(WORKERS)]
    return FleetPlay(fleet_programs(programs, load, WORKERS, seed), workers, router, costs).play()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=float, default=LOAD)
    given = parser.parse_args()
    print(f"{'':22}   hits  busiest minute  median minute  prefilled  mean latency      p95")
    for name, router in routers().items():
        one = figures_of(router, load=given.load, seed=given.seed)
        minutes = sorted(one.minutes(WORKERS))
        print(
            f"{name:22} {one.hit_share:6.3f} {minutes[-1]:15.2f} {minutes[len(minutes) // 2]:14.2f}"
            f" {one.prefilled_tokens / 1e6:9.2f}M {fmean(one.latencies_s):11.1f} s"
            f" {quantiles(one.latencies_s, n=20)[-1]:6.1f} s"
        )


if __name__ == "__main__":
    main()
