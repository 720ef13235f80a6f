"""Routes and their order by the Triton set: those of plain torch, and in one launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.check.routing import route_difference, sum_difference
from agentrt_kernels.reference import Reference
from agentrt_kernels.routes import RouteRule

CPU = torch.device("cpu")
quick = settings(max_examples=8, deadline=None, derandomize=True, database=None)
wide = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
RULE = RouteRule(2, normalizes=True, rounds=False)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are launched from now on."""
    pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")
    from triton.runtime.interpreter import GridExecutor

    names: list[str] = []
    run = GridExecutor.__call__

    def watched(self, *args, **how):
        names.append(self.fn.__name__)
        return run(self, *args, **how)

    monkeypatch.setattr(GridExecutor, "__call__", watched)
    return names


@quick
@given(
    tokens=st.integers(1, 40),
    experts=st.integers(1, 70),
    each=st.integers(1, 8),
    normalizes=st.booleans(),
    rounds=st.booleans(),
    dtype=wide,
)
def check_routes(interpreted, tokens, experts, each, normalizes, rounds, dtype):
    rule = RouteRule(min(each, experts), normalizes, rounds)
    assert route_difference(interpreted, tokens, experts, rule, dtype, CPU) <= 1


def test_routes_are_those_of_torch(interpreted) -> None:
    check_routes(interpreted)


@pytest.mark.parametrize("experts", [2, 8, 128])
@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_one_launch_routes_and_sorts(interpreted, launched, tokens: int, experts: int) -> None:
    scores = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(0))
    interpreted.route(scores, RULE)
    assert launched == ["_route"]
    interpreted.sort_choices(torch.zeros(tokens, 2).long(), experts)
    assert launched == ["_route"] * 2


@pytest.mark.parametrize(("tokens", "experts"), [(65, 128), (2000, 8), (0, 8)])
def test_more_tokens_than_one_program_holds_go_through_torch(
    interpreted, launched, tokens: int, experts: int
) -> None:
    scores = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(0))
    found, expected = interpreted.route(scores, RULE), Reference().route(scores, RULE)
    assert torch.equal(found.chosen, expected.chosen)
    assert torch.equal(found.order.places, expected.order.places)
    assert "_route" not in launched or tokens == 65  # whose few choices are still sorted by one


def test_scores_may_lie_apart(interpreted) -> None:
    scores = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))[:, 3:9]
    found, expected = interpreted.route(scores, RULE), Reference().route(scores, RULE)
    assert torch.equal(found.chosen, expected.chosen)
    torch.testing.assert_close(found.shares, expected.shares)


def test_the_first_of_equal_experts_is_taken(interpreted) -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 3.0, 1.0]])
    found = interpreted.route(scores, RULE)
    assert found.chosen.tolist() == [[1, 2], [0, 1], [0, 2]]


def test_experts_of_no_weight_are_taken_last(interpreted) -> None:
    """As few as there are, a token takes its number of them."""
    scores = torch.tensor([[-torch.inf, 0.0, -torch.inf], [500.0, -500.0, 0.0]])
    found = interpreted.route(scores, replace(RULE, each=3))
    assert found.chosen.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert found.shares.tolist() == [[1.0, 0.0, 0.0]] * 2


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy's
@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_a_row_that_is_no_number_has_experts_without_weights(interpreted, fault: float) -> None:
    """Which are some of those that there are, so that nothing is read elsewhere."""
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    scores[1, 2] = fault
    found, expected = interpreted.route(scores, RULE), Reference().route(scores, RULE)
    assert found.shares[1].isnan().all()
    assert ((found.chosen >= 0) & (found.chosen < 5)).all()
    assert torch.equal(found.chosen[::2], expected.chosen[::2])
    assert found.order.expert_start[-1] == 6


@quick
@given(
    tokens=st.integers(1, 90),
    experts=st.integers(1, 20),
    each=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def check_orders(interpreted, tokens, experts, each, seed):
    source = torch.Generator().manual_seed(seed)
    chosen = torch.randint(0, experts + 1, (tokens, each), generator=source)
    found = interpreted.sort_choices(chosen, experts)
    sorted_experts = chosen.flatten()[found.places.argsort()]
    assert (sorted_experts.diff() >= 0).all()
    assert torch.equal(found.places.sort().values, torch.arange(tokens * each))
    assert torch.equal(found.tokens[found.places], torch.arange(tokens * each) // each)
    for one in range(experts):
        start, stop = found.expert_start[one : one + 2].tolist()
        assert (sorted_experts[start:stop] == one).all()
        assert stop - start == (chosen == one).sum()
        own = found.places.argsort()[start:stop]
        assert (own.diff() > 0).all(), "in their order"
    expected = Reference().sort_choices(chosen, experts)
    assert torch.equal(found.places, expected.places)
    assert torch.equal(found.expert_start, expected.expert_start)


def test_choices_are_in_the_order_of_their_experts(interpreted) -> None:
    check_orders(interpreted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("tokens", "each", "width"), [(1, 1, 5), (4, 3, 1030), (3, 8, 24)])
def test_sums(interpreted, tokens: int, each: int, width: int, dtype: torch.dtype) -> None:
    assert sum_difference(interpreted, tokens, each, width, dtype, CPU) <= 1


def test_no_sum_of_no_tokens(interpreted) -> None:
    order = interpreted.sort_choices(torch.empty(0, 2).long(), 3)
    interpreted.sum_choices(torch.empty(0, 4), order, torch.empty(0, 2), torch.empty(0, 4))


def test_a_wrong_route_is_found() -> None:
    class Unsorted(Reference):
        def sort_choices(self, chosen, experts):
            made = super().sort_choices(chosen, experts)
            return replace(made, places=made.places.flip(0))

    class Unweighted(Reference):
        def route(self, scores, rule):
            return super().route(scores, replace(rule, normalizes=not rule.normalizes))

        def sum_choices(self, made, order, shares, out) -> None:
            super().sum_choices(made, order, shares + 1, out)

    for wrong in (Unsorted(), Unweighted()):
        assert route_difference(wrong, 5, 9, RULE, torch.float32, CPU) > 1
    assert route_difference(Reference(), 5, 9, RULE, torch.float32, CPU) <= 1
    assert sum_difference(Unweighted(), 5, 2, 9, torch.float32, CPU) > 1
