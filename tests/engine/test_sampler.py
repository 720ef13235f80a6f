"""Picking tokens: filters, penalties, seeds, log-probabilities."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt.engine.sampling import sampler
from agentrt.engine.sampling.sampler import SamplingRow, uniform, unpack_bitmask
from agentrt_kernels.reference import Reference

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])
KERNELS = TorchKernels()


def pick(logits, draws, mask):
    return sampler.sample_tokens(KERNELS, logits, draws, mask).wait()


def frequencies(draws=4000, *, mask=None, temperature=1.0, **sampling):
    made = [
        SamplingRow(SamplingParams(temperature=temperature, seed=seed, **sampling), 0)
        for seed in range(draws)
    ]
    words = None if mask is None else torch.tensor([[mask]], dtype=torch.int32).repeat(draws, 1)
    counts = torch.zeros(5)
    for picked in pick(LOGITS.repeat(draws, 1), made, words):
        counts[picked.token_id] += 1
    return counts / draws


def test_greedy_takes_the_likeliest():
    assert pick(LOGITS[None].clone(), [SamplingRow(SamplingParams(), 0)], None)[0].token_id == 4


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


@pytest.mark.parametrize("kernels", [KERNELS, Reference()], ids=["torch", "reference"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_is_no_number_gives_no_token_where_it_may_come(temperature, kernels):
    logits = torch.zeros(2, 40)
    logits[:, 35] = torch.nan
    mask = torch.tensor([[-1, -1], [8, 0]], dtype=torch.int32)
    draws = [SamplingRow(SamplingParams(temperature=temperature, logprobs=1), 0)] * 2
    tokens = [one.token_id for one in sampler.sample_tokens(kernels, logits, draws, mask).wait()]
    assert tokens == [-1, 3]


def test_masks_leave_only_what_is_allowed():
    mask = torch.tensor([[0b01100]], dtype=torch.int32)
    assert pick(LOGITS[None].clone(), [SamplingRow(SamplingParams(), 0)], mask)[0].token_id == 2
    found = frequencies(200, mask=0b01100, temperature=2.0)
    assert {token for token in range(5) if found[token] > 0} == {2, 3}


def test_logprobs_are_of_what_the_mask_leaves():
    mask = torch.tensor([[0b01100], [-1]], dtype=torch.int32)
    draws = [SamplingRow(SamplingParams(logprobs=4), 0), SamplingRow(SamplingParams(logprobs=1), 0)]
    masked, free = pick(LOGITS.repeat(2, 1), draws, mask)
    expected = LOGITS[2:4].log_softmax(0)
    assert masked.logprob.top == tuple(zip((2, 3), expected.tolist(), strict=True))
    assert [token for token, _ in free.logprob.top] == [4]


def test_a_row_does_not_depend_on_the_others():
    draws = [SamplingRow(SamplingParams(temperature=1.0, seed=seed), 5) for seed in range(20)]
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
    pick(row, [SamplingRow(SamplingParams(**sampling), 0, prompt, output)], None)
    assert row[0].tolist() == expected


def test_logprobs_are_of_the_distribution_sampled_from():
    draw = SamplingRow(SamplingParams(temperature=2.0, seed=1, logprobs=2), 0)
    picked = pick(LOGITS[None].clone(), [draw], None)[0]
    expected = (LOGITS / 2).log_softmax(0)
    assert picked.logprob is not None
    assert picked.logprob.token_id == picked.token_id
    assert picked.logprob.logprob == pytest.approx(float(expected[picked.token_id]))
    assert [token for token, _ in picked.logprob.top] == [4, 0]
    assert picked.logprob.top[0][1] == pytest.approx(float(expected[4]))


def test_masks_are_bits_the_lowest_first():
    mask = torch.tensor([[-(2**31), 0b101]], dtype=torch.int32)
    assert unpack_bitmask(mask, 35)[0].nonzero()[:, 0].tolist() == [31, 32, 34]


how = st.tuples(
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([0, 0, 1, 5, 80]),
    st.sampled_from([1.0, 1.0, 0.05, 0.6, 0.95]),
    st.sampled_from([0.0, 0.0, 0.02, 0.5]),
    st.floats(0, 1, exclude_max=True),
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    rows=st.lists(how, min_size=1, max_size=5),
    tokens=st.sampled_from([1, 16, 33, 500]),
    spread=st.sampled_from([0.1, 3.0, 30.0]),
    rounded=st.booleans(),
    masked=st.booleans(),
)
def test_rows_at_once_are_drawn_as_the_reference_draws_them(rows, tokens, spread, rounded, masked):
    source = torch.Generator().manual_seed(tokens)
    logits = torch.randn(len(rows), tokens, generator=source) * spread
    if rounded:
        logits = logits.round()  # many are equal
    mask = None
    if masked:
        mask = torch.randint(-(2**31), 2**31, (len(rows), -(-tokens // 32)), generator=source).int()
        mask[:, 0] |= 1
    dtypes = (torch.float32, torch.int32, torch.float32, torch.float32, torch.float64)
    columns = [
        torch.tensor(values, dtype=dtype)
        for values, dtype in zip(zip(*rows, strict=True), dtypes, strict=True)
    ]
    outs = [torch.empty(len(rows), dtype=torch.int64) for _ in range(2)]
    temperature, top_k, top_p, min_p, uniform = columns
    for one, out in zip((Reference(), KERNELS), outs, strict=True):
        one.sample(logits.clone(), mask, temperature, top_k, top_p, min_p, uniform, out)
    assert torch.equal(*outs)
