"""Load as curves: where the comparison is, what is computed of it, and the bound in it."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.command import study_of
from agentrt.lab.sim.draw_workers import DrawPlay, DrawWorkers
from agentrt.lab.sim.flags import LoadFlags
from agentrt.lab.sim.load import LoadCurves, load_curves, rate_at
from agentrt.lab.sim.load_file import to_json
from agentrt.lab.sim.load_page import load_page
from agentrt.lab.sim.load_targets import load_targets
from agentrt.lab.sim.study import StudyPoint

FLAGS = LoadFlags(workload="react", programs=12, scale="output=0.05,count=0.3", kv_tokens=600)
ARMS = arms_named("fcfs+gate,rwa,clairvoyant")


@cache
def served_point() -> StudyPoint:
    """A point to make others of."""
    return study_of(FLAGS).point(ARMS[0], 20.0, 0, FLAGS.kv_tokens)


class MadeUp:
    """Serves plays at once: slowdowns grow with the rate, and arms differ by a factor."""

    def __init__(self) -> None:
        self.plays: list[DrawPlay] = []

    def __call__(self, plays: Sequence[DrawPlay]) -> list[Future[StudyPoint]]:
        self.plays += plays
        return [self._served(play) for play in plays]

    @staticmethod
    def _served(play: DrawPlay) -> Future[StudyPoint]:
        times = {"fcfs+gate": 1.0, "rwa": 0.5, "clairvoyant": 0.4}[play.arm.name]
        values = np.linspace(0.5, 1.5, 20) * play.rate * times * (1 + play.draw)
        point = replace(
            served_point(), arm=play.arm.name, rate=play.rate, slowdown=values, latency_s=values
        )
        coming: Future[StudyPoint] = Future()
        coming.set_result(point)
        return coming


@cache
def curves() -> LoadCurves:
    return load_curves(
        MadeUp(),
        ARMS,
        kv_tokens=600,
        draws=3,
        slowdown=5.0,
        first_rate=4.0,
        factors=(0.25, 0.5, 1.0, 2.0),
    )


def test_one_rate_is_found_over_all_draws() -> None:
    """The mean over draws is twice the rate here, so that it is five at 2.5."""
    found = curves()
    assert found.rate == pytest.approx(2.5, rel=0.1)
    assert found.rates == tuple(factor * found.rate for factor in (0.25, 0.5, 1.0, 2.0))
    at_rate = found.at_rate("fcfs+gate", "mean_slowdown").value
    assert at_rate == pytest.approx(5.0, rel=0.1)
    assert [one.slowdown for one in found.tried if one.rate == found.rate] == [at_rate]


def test_no_play_is_repeated() -> None:
    serve = MadeUp()
    load_curves(
        serve,
        ARMS,
        kv_tokens=600,
        draws=2,
        slowdown=5.0,
        first_rate=3.0,
        factors=(1.0, 2.0),
        rate=3.0,
    )
    assert len(serve.plays) == len(set(serve.plays)) == 2 * 3 * 2


def test_ratios_are_of_means_over_draws() -> None:
    ratio = curves().ratio("rwa", "fcfs+gate", "mean_slowdown")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_the_rate_within_the_slo_is_between_two_rates() -> None:
    assert rate_at((1.0, 2.0, 4.0), np.array([1.0, 0.95, 0.75]), 0.9) == pytest.approx(2.5)
    assert rate_at((1.0, 2.0), np.array([0.8, 0.7]), 0.9) == 1.0
    assert rate_at((1.0, 2.0), np.array([1.0, 0.9]), 0.9) == 2.0
    found = curves()
    assert found.capacity("rwa").value > found.capacity("fcfs+gate").value
    assert found.capacity_ratio("fcfs+gate", "rwa").value < 1.0


def test_targets_are_of_the_arms_that_there_are() -> None:
    assert len(load_targets(curves())) == 7
    assert all(one.is_met for one in load_targets(curves())[:3])
    without = replace(curves(), points={"rwa": curves().points["rwa"]})
    assert load_targets(without) == []


def test_everything_is_written() -> None:
    told = json.loads(json.dumps(to_json(curves(), {"costs": "half-cpu"})))
    assert told["arms"].keys() == {"fcfs+gate", "rwa", "clairvoyant"}
    curve = told["arms"]["rwa"]["curve"]
    assert [one["rate"] for one in curve] == list(curves().rates)
    assert len(curve[0]["draws"][0]["slowdown"]) == 20
    page = load_page(curves(), {"costs": "<half>"})
    assert page.count("<svg") == 4
    assert "&lt;half&gt;" in page


def test_processes_change_nothing() -> None:
    plays = [DrawPlay(arm, 20.0, draw) for arm in ARMS for draw in (0, 1)]
    with DrawWorkers(FLAGS, FLAGS.kv_tokens, 2) as workers:
        found = [coming.result() for coming in workers.serve(plays)]
    study = study_of(FLAGS)
    for play, point in zip(plays, found, strict=True):
        here = study.point(play.arm, play.rate, play.draw, FLAGS.kv_tokens)
        assert point.latency_s.tolist() == here.latency_s.tolist()


def test_a_replay_knows_what_each_program_needs_of_the_memory() -> None:
    """What a program alone made of the cache, not the mean of what others did."""
    study = study_of(replace(FLAGS, workload="react,map-reduce"))
    needs = study.alone(0).kv_needs
    assert needs.keys() == {program.name for program in study.programs(0)}
    assert len({need.peak_tokens for need in needs.values()}) > 6
    for program in study.programs(0):
        need = needs[program.name]
        assert 0 < need.longest_tokens <= need.peak_tokens
        if program.shape == "map-reduce":
            assert need.longest_tokens < need.peak_tokens, "its branches need more at once"
