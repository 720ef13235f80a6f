"""The divergence of two models' predictions, against torch's own."""

import pytest
import torch
from torch.nn import functional

from agentrt.engine.models.quantiser.divergence import DivergenceSum


def test_it_is_the_mean_over_all_tokens():
    source = torch.Generator().manual_seed(0)
    reference, other = (torch.randn(150, 40, generator=source) * 3 for _ in range(2))
    total = DivergenceSum()
    total.add(reference[:100], other[:100])
    total.add(reference[100:], other[100:])
    found = total.mean()
    expected = functional.kl_div(
        other.log_softmax(-1), reference.log_softmax(-1), log_target=True, reduction="batchmean"
    )
    assert found.kl_nats == pytest.approx(float(expected), rel=1e-4)
    assert found.same_top == pytest.approx(
        float((reference.argmax(-1) == other.argmax(-1)).float().mean())
    )
    assert found.tokens == 150


def test_a_model_does_not_diverge_from_itself():
    logits = torch.randn(5, 9, generator=torch.Generator().manual_seed(1))
    total = DivergenceSum()
    total.add(logits, logits + 2.0)  # which changes no probability
    found = total.mean()
    assert found.kl_nats == pytest.approx(0.0, abs=1e-6)
    assert found.same_top == 1.0
