"""Layers that are run one by one compute what transformers computes of the whole."""

from __future__ import annotations

import pytest
import torch
import transformers

from agentrt.engine.models.quantisation import EMBEDDING, HEAD
from agentrt.engine.models.quantiser.input_statistics import InputStatistics
from agentrt.engine.models.quantiser.layer_runner import (
    LAYER,
    LayerRunner,
    LayerStatistics,
    OutputHead,
    grouped,
)
from agentrt.engine.models.quantiser.quantisable_model import FINAL_NORM, open_model
from agentrt.engine.models.quantiser.source_checkpoint import SourceCheckpoint

DENSE = (
    *("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "granite"),
    *("olmo2", "cohere", "cohere2", "glm", "glm4", "smollm3"),
)
SEQUENCES = [
    [(7 * at) % 250 for at in range(first, first + size)]
    for first, size in ((3, 20), (90, 1), (41, 33))
]


def layer_weights(source, number):
    prefix = f"model.layers.{number}."
    return {
        LAYER + name.removeprefix(prefix): source.tensor(name).float()
        for name in source.names
        if name.startswith(prefix)
    }


def new_statistics(shape):
    return LayerStatistics(
        InputStatistics(shape.hidden),
        InputStatistics(shape.query_width),
        InputStatistics(shape.hidden),
        InputStatistics(shape.inner),
    )


@pytest.mark.parametrize("kind", DENSE)
def test_logits_are_those_of_transformers(kind, model_dir):
    model = open_model(model_dir(kind))
    runner, shape = LayerRunner(model.plan, model.shape), model.shape
    with SourceCheckpoint(model_dir(kind)) as source:
        states = runner.embed(source.tensor(EMBEDDING), SEQUENCES)
        statistics = new_statistics(shape)
        for number in range(shape.layers - 1):
            states = runner.run(number, layer_weights(source, number), states, statistics)
        head = source.tensor(EMBEDDING if shape.tied else HEAD)
        ends = OutputHead(source.tensor(FINAL_NORM), head)
        last = shape.layers - 1
        found = torch.cat(list(runner.logits(last, layer_weights(source, last), ends, states)))
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        model_dir(kind), dtype=torch.float32, attn_implementation="eager"
    )
    seen: dict[str, list[torch.Tensor]] = {}
    named = dict(reference.named_modules())
    widths = {"o_proj": statistics.out, "down_proj": statistics.down}
    for name in widths:
        module = next(one for at, one in named.items() if at.endswith(f"layers.0.{_part(name)}"))
        module.register_forward_pre_hook(
            lambda _, inputs, name=name: seen.setdefault(name, []).append(inputs[0][0].detach())
        )
    with torch.inference_mode():
        expected = [reference(torch.tensor([ids])).logits[0] for ids in SEQUENCES]
    assert torch.allclose(found, torch.cat(expected), atol=2e-3, rtol=1e-3)
    for name, counted in widths.items():
        inputs = torch.cat(seen[name])
        assert counted.tokens == len(inputs) == sum(map(len, SEQUENCES))
        moments = inputs.t() @ inputs / len(inputs)
        assert torch.allclose(counted.hessian, moments, atol=1e-4, rtol=1e-3)
        assert torch.allclose(counted.mean_size, inputs.abs().mean(0), atol=1e-4)


def _part(name):
    return f"self_attn.{name}" if name == "o_proj" else f"mlp.{name}"


def test_sequences_are_run_in_batches_of_bounded_size():
    assert grouped([3, 3, 5, 9, 1], 8) == [[3, 3], [5], [9], [1]]
