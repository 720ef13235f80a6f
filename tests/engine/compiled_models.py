"""What tests of compiled models share: the comparison with their source, and refusals."""

from __future__ import annotations

import json

import pytest
import torch

from agentrt.base.compiled_model import MANIFEST
from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.runner.model_compiler import compile_model
from agentrt.prompt import Codec
from tests.engine.gguf_models import greedy_ids

PROMPTS = (
    [(3 * at) % 250 for at in range(40)],
    [7, 7, 9],
    [(5 * at + 1) % 250 for at in range(19)],
)


def config_of(path, **settings):
    return EngineConfig(path, self_check="never", **settings)


def logits_of(config):
    model = load_model(config)
    return network_logits(model.network, model.layout, model.heads, model.logits_size), model


def edit(path, **changes):
    file = path / MANIFEST
    found = json.loads(file.read_text())
    for place, value in changes.items():
        part = found["target"] if place in found["target"] else found
        part[place] = value
    file.write_text(json.dumps(found))


def refusal(path, kind=ModelInvalid, **settings):
    with pytest.raises(kind) as caught:
        load_model(EngineConfig(path, **settings))
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def same(source, target, engine, **settings):
    """Whether both give the same logits and tokens, and neither keeps more than the other."""
    compile_model(config_of(source, **settings), target)
    expected, model = logits_of(config_of(source, **settings))
    found, again = logits_of(EngineConfig(target))
    assert torch.equal(found, expected)
    assert again.network.quantised_bytes == model.network.quantised_bytes
    assert (again.parameters, again.window_tokens) == (model.parameters, model.window_tokens)
    assert (again.layout.dtype, again.report.linear) == (model.layout.dtype, model.report.linear)
    served = greedy_ids(source, engine, PROMPTS, 12, self_check="never", **settings)
    assert greedy_ids(target, engine, PROMPTS, 12) == served
    ours, theirs = Codec.load(target), Codec.load(source)
    assert ours.fingerprint == theirs.fingerprint
    assert ours.vocab.fingerprint == theirs.vocab.fingerprint  # ids that end an output among it
    assert ours.window_tokens == theirs.window_tokens
