"""Figures of a play on a fleet, by the tokens that it served."""

import json
from dataclasses import asdict, replace

from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.fleet.fleet_play import FleetPlay, fleet_play, play_from_json
from agentrt.lab.bench.fleet.fleet_targets import CLIENT, KNOWING, OURS, fleet_targets
from tests.lab.bench.fleet.test_token_clock import clock_of
from tests.lab.bench.test_compound_load import sample


def ended(name: str, arrived_s: float, ended_s: float, tokens: int) -> PlayedProgram:
    one = sample(name, latency_s=ended_s - arrived_s)
    return replace(one, arrived_s=arrived_s, ended_s=ended_s, output_tokens={"a": tokens})


def played(arm: str, latencies_s: list[float], draw: int = 0) -> FleetPlay:
    clock = clock_of([(0.0, 0), (100.0, 1000)])
    programs = [ended(str(at), 1.0, 1.0 + late, 10) for at, late in enumerate(latencies_s)]
    key = (arm, draw, 0, 2.0, 0)
    return fleet_play(key, programs, clock, took_s=1.0, others_cores=None)


def test_latency_counts_tokens_that_were_served_meanwhile() -> None:
    found = played(CLIENT, [1.0, 3.0])
    assert found.latencies_tokens == (10.0, 30.0)
    assert found.slowdowns == [1.0, 3.0]
    assert (found.mean_latency_tokens, found.mean_latency_s) == (20.0, 2.0)


def test_the_first_tenth_does_not_count() -> None:
    assert len(played(CLIENT, [1.0] * 20).names) == 18


def test_targets_compare_draws_that_both_arms_played() -> None:
    plays = [
        played(OURS, [1.0, 1.0]),
        played(CLIENT, [2.0, 2.0]),
        played(CLIENT, [50.0, 50.0], draw=1),
        played(KNOWING, [0.5, 0.5]),
    ]
    by_what = {one.what: one for one in fleet_targets(plays)}
    assert by_what[f"mean latency, {OURS} by {CLIENT}"].found.value == 0.5
    assert by_what[f"mean latency, {OURS} by {CLIENT}"].is_met
    assert not by_what[f"mean slowdown, {OURS} by {KNOWING}"].is_met


def test_a_play_comes_back_from_its_file() -> None:
    before = played(CLIENT, [1.0, 3.0])
    assert play_from_json(json.loads(json.dumps(asdict(before)))) == before
