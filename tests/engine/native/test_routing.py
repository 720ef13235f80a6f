"""Routing: who takes whom, as trained and under the bounds that a setting gives."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.base.expert_routing import expert_routing
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.routing import Capacity, Threshold, trained
from agentrt.engine.models.native.routing_choice import routing_of
from agentrt.engine.models.native.shape import ExpertShape

quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)


@st.composite
def cases(draw):
    """Scores of some tokens for some experts, and the shape of these."""
    rows, count = draw(st.integers(0, 12)), draw(st.integers(1, 9))
    shape = ExpertShape(
        count=count,
        experts_per_token=draw(st.integers(1, count)),
        inner=8,
        normalizes_weights=draw(st.booleans()),
        rounds_weights=False,
        shared_inner=0,
        biased=False,
        layers=frozenset({0}),
    )
    source = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return torch.randn(rows, count, generator=source) * draw(st.sampled_from([0.1, 1, 9])), shape


def check_routes(routes, scores, shape):
    """What holds in every way: none twice, and no weight without an expert."""
    chosen, shares = routes.chosen, routes.shares
    assert chosen.shape == shares.shape == (scores.shape[0], shape.experts_per_token)
    assert chosen.dtype == torch.int64
    assert chosen.is_contiguous()
    assert shares.is_contiguous()
    assert ((chosen >= 0) & (chosen <= shape.count)).all()
    assert (shares >= 0).all()
    assert shares.isfinite().all()
    assert not shares[chosen == shape.count].any()
    for row in chosen.tolist():
        real = [one for one in row if one < shape.count]
        assert len(set(real)) == len(real)


@quick
@given(cases())
def test_as_trained_the_best_are_taken_by_their_probabilities(case):
    scores, shape = case
    routes = trained(scores, shape)
    check_routes(routes, scores, shape)
    best = scores.sort(-1, descending=True).indices[:, : shape.experts_per_token]
    assert torch.equal(routes.chosen, best)
    expected = scores.softmax(-1).gather(-1, best)
    if shape.normalizes_weights:
        expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(routes.shares, expected)


@quick
@given(cases(), st.sampled_from([0.0, 0.05, 0.3, 0.6, 1.0]))
def test_little_weight_is_dropped_and_the_sum_stays(case, least):
    scores, shape = case
    before, routes = trained(scores, shape), Threshold(least)(scores, shape)
    check_routes(routes, scores, shape)
    kept = routes.chosen < shape.count
    assert torch.equal(routes.chosen[kept], before.chosen[kept])
    part = before.shares / before.shares.sum(-1, keepdim=True)
    assert (part[kept & (torch.arange(kept.shape[1]) > 0)] >= least - 1e-6).all()
    assert (part[~kept] < least + 1e-6).all()
    assert kept[:, 0].all()
    torch.testing.assert_close(routes.shares.sum(-1), before.shares.sum(-1))
    if least == 0:
        torch.testing.assert_close(routes.shares, before.shares)


@quick
@given(cases(), st.sampled_from([0.3, 1.0, 1.25, 3.0]), st.sampled_from(["next", "drop"]))
def test_no_expert_takes_more_than_its_capacity(case, factor, overflow):
    scores, shape = case
    routing = Capacity(factor, overflow)
    before, routes = trained(scores, shape), routing(scores, shape)
    check_routes(routes, scores, shape)
    capacity = routing.tokens(scores.shape[0], shape)
    taken = routes.chosen.flatten().bincount(minlength=shape.count + 1)[: shape.count]
    assert (taken <= capacity).all()
    kept = routes.chosen < shape.count
    if overflow == "drop":
        assert torch.equal(routes.chosen[kept], before.chosen[kept])
        torch.testing.assert_close(routes.shares[kept], before.shares[kept])
        asked = before.chosen.flatten().bincount(minlength=shape.count)
        assert torch.equal(taken, asked.clamp(max=capacity))
        return
    for row, experts in enumerate(routes.chosen.tolist()):
        own = {one for one in experts if one < shape.count}
        if len(own) < shape.experts_per_token:  # all others are full
            assert all(taken[one] == capacity for one in set(range(shape.count)) - own)
        expected = torch.zeros(len(experts))
        for at, one in enumerate(experts):
            if one < shape.count:
                expected[at] = scores[row].softmax(-1)[one]
        if shape.normalizes_weights and own:
            expected = expected / expected.sum()
        torch.testing.assert_close(routes.shares[row], expected)


@quick
@given(cases())
def test_enough_capacity_changes_nothing(case):
    scores, shape = case
    before = trained(scores, shape)
    for overflow in ("next", "drop"):
        routes = Capacity(float(shape.count), overflow)(scores, shape)
        assert torch.equal(routes.chosen, before.chosen)
        torch.testing.assert_close(routes.shares, before.shares)


def test_earlier_rows_come_first():
    shape = ExpertShape(3, 1, 8, True, False, 0, False, frozenset({0}))
    scores = torch.tensor([[3.0, 2.0, 1.0]] * 3)
    assert Capacity(1.0)(scores, shape).chosen.tolist() == [[0], [1], [2]]
    assert Capacity(1.0, "drop")(scores, shape).chosen.tolist() == [[0], [3], [3]]
    assert Capacity(1.5)(scores, shape).chosen.tolist() == [[0], [0], [1]]


@pytest.mark.parametrize("routing", [trained, Threshold(0.2), Capacity(1.0), Capacity(1.0, "drop")])
def test_weights_are_rounded_as_the_model_was_trained(routing):
    rounded = ExpertShape(4, 2, 8, False, True, 0, False, frozenset({0}))
    scores = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert routing(scores, rounded).shares.dtype == torch.bfloat16
    exact = dataclasses.replace(rounded, rounds_weights=False)
    assert routing(scores, exact).shares.dtype == torch.float32


def second_best(scores, each):
    """Routing of a user: not the best expert, but those behind it."""
    found = scores.softmax(-1).topk(each + 1, -1)
    return found.indices[:, 1:], found.values[:, 1:]


def wrong(scores, each):
    return scores.topk(each, -1).indices


NAME = f"{__name__}:second_best"


def test_a_function_of_the_user_routes():
    shape = ExpertShape(3, 1, 8, True, False, 0, False, frozenset({0}))
    routing = routing_of(expert_routing(NAME))
    assert routing(torch.tensor([[1.0, 3.0, 2.0]]), shape).chosen.tolist() == [[2]]


def test_a_function_that_routes_nothing_is_named():
    shape = ExpertShape(3, 1, 8, True, False, 0, False, frozenset({0}))
    routing = routing_of(expert_routing(f"{__name__}:wrong"))
    with pytest.raises(UsageError, match="wrong returned no experts and weights for 1 tokens"):
        routing(torch.tensor([[1.0, 3.0, 2.0]]), shape)


@pytest.mark.parametrize("name", ["no.such.module:route", f"{__name__}:no_such_function"])
def test_a_function_that_is_not_there_is_refused(name):
    with pytest.raises(UsageError, match="cannot be imported"):
        routing_of(expert_routing(name))


def first_logits(core, engine):
    core.submit(engine.request(1, [7, 3, 9, 200, 31, 8], max_tokens=1, logprobs=5))
    return engine.drain(core).logprobs(1)


@pytest.mark.parametrize("kind", ["mixtral", "gpt_oss"])
def test_the_engine_routes_as_it_is_told(kind, build, engine):
    said = {
        routing: first_logits(build(kind, expert_routing=routing), engine)
        for routing in ("trained", "threshold=0.000001", "capacity=4", "threshold=1", NAME)
    }
    assert said["trained"] == said["threshold=0.000001"] == said["capacity=4"]
    assert said["trained"] != said["threshold=1"]
    assert said["trained"] != said[NAME] != said["threshold=1"]


@pytest.mark.parametrize(
    ("kind", "why"), [("llama", "has none"), ("deepseek_v3", "transformers computes")]
)
def test_what_has_no_routes_refuses_others(kind, why, model_dir):
    config = EngineConfig(model_dir(kind), expert_routing="capacity=1", self_check="never")
    with pytest.raises(EngineUnavailable, match=why):
        load_model(config)
