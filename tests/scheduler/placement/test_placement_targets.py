"""Placements of 2,000 programs over eight scripted workers: what the placer has to reach."""

import pytest

from tests.scheduler.placement.fleet_play import PlayFigures
from tests.scheduler.placement.placement_table import KV_TOKENS, WORKERS, figures_of
from tests.scheduler.placement.routers import Placed, PrefixHash, RoundRobin


def test_the_placer_finds_prefixes_and_balances_work() -> None:
    placed, hashed, turned = (
        figures_of(router, programs=600)
        for router in (Placed(WORKERS, KV_TOKENS), PrefixHash(), RoundRobin())
    )
    assert placed.hit_share > 0.97 > turned.hit_share
    assert placed.busiest(WORKERS) < 1.2 < hashed.busiest(WORKERS)
    assert placed.prefilled_tokens < 0.5 * turned.prefilled_tokens


@pytest.mark.slow
@pytest.mark.parametrize("kv_tokens", [KV_TOKENS, 0])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_continuations_land_where_their_kv_stands(seed: int, kv_tokens: int) -> None:
    figures: PlayFigures = figures_of(Placed(WORKERS, kv_tokens), seed=seed)
    assert figures.hit_share >= 0.99
    assert figures.busiest(WORKERS) <= 1.2
