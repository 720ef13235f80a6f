"""A decode step allocates the same whatever the length of the histories."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

SHORT, LONG = 100, 2000


class OutputBytes(TorchDispatchMode):
    """Sums the memory of every tensor that an operation returns and that is not an input's."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {_storage(x) for x in _tensors((args, kwargs or {}))}
        self.total += sum(
            x.untyped_storage().nbytes() for x in _tensors(out) if _storage(x) not in given
        )
        return out


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _storage(tensor):
    return tensor.untyped_storage().data_ptr()


def decode_bytes(core, engine, context, batch, counter):
    """What one decode step allocates after `batch` prompts of `context` tokens."""
    for number in range(batch):
        prompt = [(number + at) % 250 for at in range(context)]
        core.submit(engine.request(1000 * context + number, prompt, max_tokens=12))
    while core.decode_forwards < counter["decodes"] + 4:  # buffers are warm
        core.step()
    measured = _measure(core)
    for number in range(batch):
        core.cancel(1000 * context + number, "measured")
    engine.drain(core)
    counter["decodes"] = core.decode_forwards
    return measured


def _measure(core):
    with OutputBytes() as outputs:
        core.step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        core.step()
    events = recorded.profiler.kineto_results.events()
    grabbed = sum(one.nbytes() for one in events if one.name() == "[memory]" and one.nbytes() > 0)
    assert outputs.total > 0
    assert grabbed > 0
    return outputs.total, grabbed


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_a_decode_step_allocates_the_same_at_any_context(kind, batch, build, engine):
    core = build(kind, kv_pages=800, prefill_chunk_tokens=1024, step_tokens=4096)
    counter = {"decodes": 0}
    short = decode_bytes(core, engine, SHORT, batch, counter)
    long = decode_bytes(core, engine, LONG, batch, counter)
    assert short == long


@pytest.mark.parametrize("batch", [1, 3])
def test_a_decode_step_allocates_the_same_for_any_width_and_depth(batch, engine, tmp_path):
    """Of a model that the native kernels compute in one call: all its room is made before."""
    made = []
    for width, layers in ((32, 2), (128, 5)):
        path = tmp_path / str(width)
        engine.save_model(
            "llama", path, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers
        )
        core = engine.core(path, self_check="never")
        if core.executor.runner.model.report.linear != "native":
            pytest.skip(core.executor.runner.model.report.kernels_reason)
        made.append(decode_bytes(core, engine, SHORT, batch, {"decodes": 0}))
        core.close()
    assert made[0] == made[1]
