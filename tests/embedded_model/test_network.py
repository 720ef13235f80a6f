"""The training network is a Llama: the library gives the same logits from the same weights."""

from typing import Any

import pytest
import torch
from export import config
from network import DRAFT, MAIN, Network, Shape
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.mark.parametrize("shape", [MAIN, DRAFT], ids=["main", "draft"])
@pytest.mark.parametrize("prefix_tokens", [0, 20], ids=["alone", "after a shared prefix"])
def test_is_a_llama(shape: Shape, prefix_tokens: int):
    """Rows that continue a shared prefix get the logits of the whole sequence."""
    torch.manual_seed(0)
    network = Network(shape).requires_grad_(False)
    for parameter in network.parameters():
        parameter.mul_(3 if parameter.dim() == 2 else 1)
    known: dict[str, Any] = config(shape)
    settings = {key: value for key, value in known.items() if key != "architectures"}
    settings["torch_dtype"] = "float32"
    llama = LlamaForCausalLM(LlamaConfig(**settings))
    missing = llama.load_state_dict(network.state_dict(), strict=False)
    llama.tie_weights()
    assert missing.unexpected_keys == []
    assert missing.missing_keys == ["lm_head.weight"]
    prefix = torch.randint(9, shape.vocabulary, (prefix_tokens,))
    rows = torch.randint(9, shape.vocabulary, (3, 30))
    with torch.no_grad():
        theirs = llama(torch.cat([prefix.expand(3, -1), rows], 1)).logits[:, prefix_tokens:]
    torch.testing.assert_close(network(prefix, rows), theirs, atol=2e-5, rtol=1e-4)
