"""Picking tokens: filters, penalties, seeds, log-probabilities."""

import pytest
import torch

from agentrt.engine.sampler import Draw, pick, uniform
from agentrt.sampling import Sampling

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])


def frequencies(draws=4000, **sampling):
    counts = torch.zeros(5)
    for seed in range(draws):
        draw = Draw(
            Sampling(temperature=sampling.pop("temperature", 1.0), seed=seed, **sampling), 0
        )
        counts[pick(LOGITS[None].clone(), [draw], None)[0].token_id] += 1
    return counts / draws


def test_greedy_takes_the_likeliest():
    assert pick(LOGITS[None].clone(), [Draw(Sampling(), 0)], None)[0].token_id == 4


def test_frequencies_follow_the_distribution():
    assert torch.allclose(frequencies(), LOGITS.softmax(0), atol=0.04)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        ({"top_k": 2}, {0, 4}),
        ({"top_p": 0.6}, {4}),
        ({"top_p": 0.7}, {4, 0}),
        ({"min_p": 0.3}, {4, 0}),
        ({"top_k": 3, "top_p": 0.99, "min_p": 0.2}, {4, 0}),
    ],
)
def test_filters_keep_what_they_say_in_proportion(sampling, kept):
    found = frequencies(600, **sampling)
    assert {token for token in range(5) if found[token] > 0} == kept
    weights = torch.tensor([LOGITS[t].exp() if t in kept else 0.0 for t in range(5)])
    assert torch.allclose(found, weights / weights.sum(), atol=0.06)


def test_masks_leave_only_what_is_allowed():
    allowed = torch.tensor([[False, False, True, True, False]])
    assert pick(LOGITS[None].clone(), [Draw(Sampling(), 0)], allowed)[0].token_id == 2
    for seed in range(50):
        draw = Draw(Sampling(temperature=2.0, seed=seed), 0)
        assert pick(LOGITS[None].clone(), [draw], allowed)[0].token_id in (2, 3)


def test_a_row_does_not_depend_on_the_others():
    draws = [Draw(Sampling(temperature=1.0, seed=seed), 5) for seed in range(20)]
    together = pick(LOGITS.repeat(20, 1), draws, None)
    alone = [pick(LOGITS[None].clone(), [draw], None)[0] for draw in draws]
    assert together == alone


def test_uniform_is_uniform_and_repeatable():
    numbers = torch.tensor([uniform(3, at) for at in range(5000)])
    assert abs(float(numbers.mean()) - 0.5) < 0.02
    assert uniform(3, 4) == uniform(3, 4) != uniform(4, 3)
    assert uniform(1, 23) != uniform(12, 3)


@pytest.mark.parametrize(
    ("sampling", "prompt", "output", "expected"),
    [
        ({"presence_penalty": 1.5}, [], [4, 4], [2.0, 1.0, 0.0, -1.0, 1.5]),
        ({"frequency_penalty": 1.5}, [], [4, 4, 0], [0.5, 1.0, 0.0, -1.0, 0.0]),
        ({"presence_penalty": 1.0, "frequency_penalty": 1.0}, [1], [4], [2.0, 1.0, 0.0, -1.0, 1.0]),
        ({"repetition_penalty": 2.0}, [3, 4], [0], [1.0, 1.0, 0.0, -2.0, 1.5]),
    ],
)
def test_penalties(sampling, prompt, output, expected):
    row = LOGITS[None].clone()
    pick(row, [Draw(Sampling(**sampling), 0, prompt, output)], None)
    assert row[0].tolist() == expected


def test_logprobs_are_of_the_distribution_sampled_from():
    draw = Draw(Sampling(temperature=2.0, seed=1, logprobs=2), 0)
    picked = pick(LOGITS[None].clone(), [draw], None)[0]
    expected = (LOGITS / 2).log_softmax(0)
    assert picked.logprob is not None
    assert picked.logprob.token_id == picked.token_id
    assert picked.logprob.logprob == pytest.approx(float(expected[picked.token_id]))
    assert [token for token, _ in picked.logprob.top] == [4, 0]
    assert picked.logprob.top[0][1] == pytest.approx(float(expected[4]))
