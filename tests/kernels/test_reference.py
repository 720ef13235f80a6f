"""The reference itself, held to torch's own operators and to sums written out."""

import math
from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from agentrt_kernels import NAMES, load
from agentrt_kernels.contract import GELU_TANH, Activation, HeadNorms, Kernels, PagedRows, Score

REFERENCE: Kernels = load("reference")


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_every_name_is_known() -> None:
    assert "reference" in NAMES
    with pytest.raises(ValueError, match="no kernel set is named 'fast'"):
        load("fast")


def test_rms_norm_is_torchs() -> None:
    x, weight = random(5, 24), random(24, seed=1)
    out = torch.empty_like(x)
    REFERENCE.rms_norm(x, weight, 1e-5, out)
    torch.testing.assert_close(out, functional.rms_norm(x, (24,), weight, 1e-5))


def test_the_sum_is_kept_and_normed() -> None:
    delta, residual, weight = random(3, 8), random(3, 8, seed=1), random(8, seed=2)
    total = delta + residual
    REFERENCE.add_rms_norm(delta, residual, weight, 1e-6, delta)
    torch.testing.assert_close(residual, total)
    torch.testing.assert_close(delta, functional.rms_norm(total, (8,), weight, 1e-6))


def test_gate_mul_is_torchs() -> None:
    gate_up = random(4, 14)
    out = torch.empty(4, 7)
    REFERENCE.gate_mul(gate_up, out)
    torch.testing.assert_close(out, functional.silu(gate_up[:, :7]) * gate_up[:, 7:])


def test_a_centered_norm_is_torchs_layer_norm() -> None:
    x, weight = random(5, 24) + 2, random(24, seed=1)
    out = torch.empty_like(x)
    REFERENCE.rms_norm(x, weight, 1e-5, out, centered=True)
    torch.testing.assert_close(out, functional.layer_norm(x, (24,), weight, None, 1e-5))


def test_other_activations_are_torchs() -> None:
    gate_up = 3 * random(4, 14)
    gate, up = gate_up.chunk(2, -1)
    out = torch.empty(4, 7)
    REFERENCE.gate_mul(gate_up, out, GELU_TANH)
    torch.testing.assert_close(out, functional.gelu(gate, approximate="tanh") * up)
    REFERENCE.gate_mul(gate_up, out, Activation(1.7, 0.0, 1.0, 2.0))
    gate, up = gate.clamp(max=2), up.clamp(-2, 2)
    torch.testing.assert_close(out, gate * torch.sigmoid(1.7 * gate) * (up + 1))


def test_heads_are_centered_and_have_weights_of_their_own() -> None:
    query, key = random(4, 6, seed=3), random(2, 6, seed=4)
    qkv, pages, out = random(3, 8, 6), torch.zeros(1, 2, 4, 2, 6), torch.empty(3, 4, 6)
    angles = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    norms = HeadNorms(query, key, 1e-6, centered=True)
    REFERENCE.rope_store(qkv, torch.zeros(3).long(), angles, torch.arange(3), norms, pages, out)
    torch.testing.assert_close(
        out, functional.layer_norm(qkv[:, :4], (6,), None, None, 1e-6) * query
    )
    normed = functional.layer_norm(qkv[:, 4:6], (6,), None, None, 1e-6)
    torch.testing.assert_close(pages[0, 0, :3], normed * key)


@pytest.mark.parametrize("normed", [False, True])
def test_rope_turns_pairs_and_stores_keys_and_values(normed: bool) -> None:
    heads, kv_heads, width, page = 4, 2, 6, 4
    qkv = random(3, heads + 2 * kv_heads, width)
    positions = torch.tensor([5, 0, 9])
    turn = torch.outer(torch.arange(10.0), 0.3 ** torch.arange(width // 2))
    norms = HeadNorms(random(width, seed=3), random(width, seed=4), 1e-6) if normed else None
    pages = torch.zeros(3, 2, page, kv_heads, width)
    query = torch.empty(3, heads, width)
    rows = torch.tensor([2 * page + 1, -1, 3])
    angles = torch.cat([turn.cos(), turn.sin()], -1)
    REFERENCE.rope_store(qkv, positions, angles, rows, norms, pages, query)
    q, k = qkv[:, :heads], qkv[:, heads : heads + kv_heads]
    if norms is not None:
        q = functional.rms_norm(q, (width,), norms.query, 1e-6)
        k = functional.rms_norm(k, (width,), norms.key, 1e-6)
    turned = [
        torch.view_as_real(
            torch.complex(x[..., : width // 2], x[..., width // 2 :])
            * torch.polar(torch.ones(()), turn[positions])[:, None]
        ).transpose(-1, -2)
        for x in (q, k)
    ]
    torch.testing.assert_close(query, turned[0].reshape(3, heads, width))
    key = turned[1].reshape(3, kv_heads, width)
    torch.testing.assert_close(pages[2, 0, 1], key[0])
    torch.testing.assert_close(pages[0, 0, 3], key[2])
    torch.testing.assert_close(pages[2, 1, 1], qkv[0, heads + kv_heads :])
    assert int(pages.flatten(-2).any(-1).sum()) == 4  # two tokens, a key and a value each


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("unseen", [0, 2])
def test_attention_is_torchs(window: int | None, unseen: int) -> None:
    heads, kv_heads, width, page = 4, 2, 8, 4
    pages = random(9, 2, page, kv_heads, width)
    rows = PagedRows(
        query_start=torch.tensor([0, 3, 3, 4], dtype=torch.int32),
        kv_tokens=torch.tensor([7, 5, 9], dtype=torch.int32),
        block_table=torch.tensor([[8, 1, 0], [2, 3, 0], [4, 6, 5]], dtype=torch.int32),
        most_query_tokens=3,
        most_kv_tokens=9,
    )
    query, out = random(4, heads, width, seed=1), torch.empty(4, heads, width)
    REFERENCE.attend(query, pages, rows, Score(0.3, window=window, unseen=unseen), out)
    for sequence, (start, stop) in enumerate(pairwise(rows.query_start.tolist())):
        tokens = int(rows.kv_tokens[sequence])
        history = pages[rows.block_table[sequence].long()].transpose(1, 2).flatten(0, 1)[:tokens]
        place = torch.arange(tokens)
        own = place[tokens - (stop - start) :, None]
        seen = (place <= own) & (place > own - (window or 99))
        seen &= (place >= unseen) | (place == own)
        expected = functional.scaled_dot_product_attention(
            query[start:stop].transpose(0, 1)[None],
            history[:, 0].transpose(0, 1)[None],
            history[:, 1].transpose(0, 1)[None],
            attn_mask=seen,
            scale=0.3,
            enable_gqa=True,
        )[0].transpose(0, 1)
        torch.testing.assert_close(out[start:stop], expected)


def test_softcap_and_sinks_by_hand() -> None:
    """One head, one row, two tokens: the sums written out."""
    pages = torch.zeros(1, 2, 2, 1, 1)
    pages[0, :, :, 0, 0] = torch.tensor([[1.0, 3.0], [10.0, 20.0]])
    one = torch.ones(1, dtype=torch.int32)
    rows = PagedRows(torch.tensor([0, 1], dtype=torch.int32), 2 * one, 0 * one[None], 1, 2)
    out = torch.empty(1, 1, 1)
    score = Score(0.5, softcap=2.0, sinks=torch.tensor([0.25]))
    REFERENCE.attend(torch.full((1, 1, 1), 2.0), pages, rows, score, out)
    first, second = (math.exp(2 * math.tanh(raw / 2)) for raw in (1.0, 3.0))
    expected = (10 * first + 20 * second) / (first + second + math.exp(0.25))
    assert float(out) == pytest.approx(expected)


def draw(logits: list[float], uniform: float, **how: float) -> int:
    settings = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **how}
    row = torch.tensor([logits])
    out = torch.empty(1, dtype=torch.int64)
    REFERENCE.sample(
        row,
        None,
        torch.tensor([settings["temperature"]]),
        torch.tensor([int(settings["top_k"])], dtype=torch.int32),
        torch.tensor([settings["top_p"]]),
        torch.tensor([settings["min_p"]]),
        torch.tensor([uniform], dtype=torch.float64),
        out,
    )
    return int(out)


HALVES = [math.log(x) for x in (0.125, 0.5, 0.25, 0.125)]


@pytest.mark.parametrize(
    ("uniform", "how", "token"),
    [
        pytest.param(0.0, {}, 1, id="the largest comes first"),
        pytest.param(0.51, {}, 2, id="then the second"),
        pytest.param(0.76, {}, 0, id="equals keep the order of their ids"),
        pytest.param(0.88, {}, 3, id="the last of equals"),
        pytest.param(0.99, {"temperature": 0.0}, 1, id="greedy"),
        pytest.param(0.99, {"top_k": 3}, 0, id="top-k takes the first of equals"),
        pytest.param(0.99, {"top_p": 0.7}, 2, id="top-p keeps the token that reaches it"),
        pytest.param(0.99, {"top_p": 0.45}, 1, id="top-p keeps one at least"),
        pytest.param(0.99, {"top_p": 0.0}, 1, id="top-p of nothing keeps one"),
        pytest.param(0.99, {"min_p": 0.4}, 2, id="min-p is a share of the largest"),
        pytest.param(0.99, {"top_k": 2, "top_p": 0.6}, 1, id="top-p is of what top-k left"),
        pytest.param(0.6, {"temperature": 0.5}, 1, id="temperature sharpens"),
    ],
)
def test_a_draw_inverts_the_distribution(uniform: float, how: dict[str, float], token: int) -> None:
    assert draw(HALVES, uniform, **how) == token


def test_the_mask_counts_bits_from_the_lowest() -> None:
    logits = torch.zeros(2, 40)
    logits[:, 33] = 5.0
    mask = torch.tensor([[-(2**31), 4], [-1, -1]], dtype=torch.int32)  # 31 and 34; all
    out = torch.empty(2, dtype=torch.int64)
    zeros = torch.zeros(2)
    REFERENCE.sample(logits, mask, zeros, zeros.int(), zeros + 1, zeros, zeros.double(), out)
    assert out.tolist() == [31, 33]


def test_pages_are_copied_whole() -> None:
    source, target = random(4, 6), torch.zeros(5, 6)
    REFERENCE.copy_pages(source, target, torch.tensor([[3, 0], [1, 4]]))
    assert torch.equal(target[[0, 4]], source[[3, 1]])
    assert not target[1:4].any()


def test_rows_meet_their_experts_matrix() -> None:
    x, weight = random(5, 3), random(4, 2, 3, seed=1)
    out = torch.empty(5, 2)
    REFERENCE.grouped_linear(x, weight, torch.tensor([0, 2, 2, 5, 5], dtype=torch.int32), out)
    torch.testing.assert_close(out[:2], x[:2] @ weight[0].T)
    torch.testing.assert_close(out[2:], x[2:] @ weight[2].T)
