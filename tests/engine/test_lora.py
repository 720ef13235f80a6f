"""LoRA adapters: batches of several against merged weights, and KV that none shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import embedded
from agentrt.base.config import LoraAdapter
from agentrt.engine.batch.batch import BatchPacker
from agentrt.kv_cache import kv_salt
from agentrt.protocol.backend import PrefixHint
from tests.engine.conftest import Helpers
from tests.engine.hash_machine import HashMachine, hash_core
from tests.engine.lora_checkpoints import ATTENTION, FUSED, MLP, merged_model, save_adapter

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
PROMPT = [(11 * at) % 250 for at in range(37)]
KINDS = {
    "llama": ATTENTION + MLP,
    "qwen2": ATTENTION + MLP,
    "gemma2": ATTENTION + MLP,  # norms behind
    "granite": ATTENTION + MLP,  # scaled residuals
    "cohere": ATTENTION + MLP,  # parallel, heads in another order
    "phi3": FUSED,
    "olmo2": ATTENTION + MLP,  # not one native call
    "qwen3_moe": ATTENTION,
}


def adapters_of(base, path, targets, **second):
    """Two adapters of different ranks."""
    return (
        LoraAdapter("judge", save_adapter(base, path / "judge", targets=targets, seed=1)),
        LoraAdapter(
            "coder", save_adapter(base, path / "coder", targets=targets, seed=2, rank=11, **second)
        ),
    )


def check_logprobs(served, base, adapters, numbers):
    """What requests were told, against models with merged weights."""
    models = {one.name: merged_model(base, one.path) for one in adapters}
    models[""] = merged_model(base, None)
    for number, (name, prompt) in numbers.items():
        with torch.inference_mode():
            logits = models[name](torch.tensor([prompt + served.ids(number)])).logits[0]
        assert len(served.logprobs(number)) > 1
        for at, told in enumerate(served.logprobs(number)):
            expected = logits[len(prompt) - 1 + at].log_softmax(-1)
            for token, value in told.top:
                assert abs(value - float(expected[token])) < 2e-4


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mixed_batch_computes_what_merged_weights_do(kind, kernels, model_dir, tmp_path, engine):
    base = model_dir(kind)
    adapters = adapters_of(base, tmp_path, KINDS[kind], use_rslora=True)
    core = engine.core(base, adapters=adapters, prefill_chunk_tokens=9, kernels=kernels)
    names = ["judge", "", "coder", "judge", "coder", ""]
    numbers = {at: (name, PROMPT[at:]) for at, name in enumerate(names)}
    for number, (name, prompt) in numbers.items():
        core.submit(engine.request(number, prompt, adapter=name, max_tokens=5, logprobs=4))
    served = engine.drain(core)
    core.close()
    check_logprobs(served, base, adapters, numbers)


def test_ranks_and_alphas_by_pattern(model_dir, tmp_path, engine):
    base = model_dir("llama")
    patterns: dict[str, Any] = {
        "rank_pattern": {"q_proj": 9, "down_proj": 2},
        "alpha_pattern": {"v_proj": 3},
    }
    path = save_adapter(base, tmp_path / "a", targets=("q_proj", "v_proj", "down_proj"), **patterns)
    adapters = (LoraAdapter("a", path),)
    core = engine.core(base, adapters=adapters)
    core.submit(engine.request(0, PROMPT, adapter="a", max_tokens=5, logprobs=4))
    served = engine.drain(core)
    core.close()
    check_logprobs(served, base, adapters, {0: ("a", PROMPT)})


def test_a_prefix_belongs_to_one_adapter(model_dir, tmp_path, engine):
    base = model_dir("llama")
    adapters = adapters_of(base, tmp_path, KINDS["llama"])
    core = engine.core(base, adapters=adapters)
    names = ["", "judge", "coder", "judge", "coder", ""]
    cached = []
    for number, name in enumerate(names):
        core.submit(engine.request(number, PROMPT, adapter=name, max_tokens=4, logprobs=4))
        served = engine.drain(core)
        cached.append(served.ends[number].ledger.cached_tokens)
        check_logprobs(served, base, adapters, {number: (name, PROMPT)})
    core.close()
    assert cached == [0, 0, 0, 36, 36, 36]


def test_an_unknown_adapter_ends_its_request_alone(build, engine):
    core = build("llama")
    core.submit(engine.request(1, PROMPT, adapter="judge", max_tokens=2))
    core.submit(engine.request(2, PROMPT, max_tokens=2))
    ends = engine.drain(core).ends
    assert "no adapter 'judge'" in ends[1].error.message
    assert ends[2].error is None


texts = st.text(alphabet="\0a1jx", max_size=6)
names = st.text(alphabet="a1jx", max_size=3)


@given(texts, names, texts, names)
def test_salts_and_adapters_make_one_salt_each(salt, adapter, other_salt, other):
    same = (salt, adapter) == (other_salt, other)
    assert (kv_salt(salt, adapter) == kv_salt(other_salt, other)) == same


class AdapterPacker(BatchPacker):
    """Packs ids that tell which adapter computes them."""

    def pack(self, slices, prefix=None, **padding):
        batch = super().pack(slices, prefix, **padding)
        if batch.adapters is not None:
            batch.fields.token_ids += 1000 * batch.adapters
        return batch


class AdapterMachine(HashMachine):
    """A hash whose keys depend on the adapter that computed them, as KV does."""

    def __init__(self, config, eos_bias):
        super().__init__(config, eos_bias)
        sizes = {"max_tokens": config.step_tokens, "max_sequences": config.max_running}
        self.packer = AdapterPacker(self.kv, self.tables, self.last, **sizes)


ASKED = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "s"]),
        st.integers(1, 120),
        st.booleans(),
    ),
    min_size=2,
    max_size=8,
)


@quick
@given(ASKED, st.sampled_from([20, 200]), st.sampled_from([0, 30]))
def test_no_answer_depends_on_what_other_adapters_computed(asked, pages, host_pages):
    """Not through the tree, the offload tier, batches or drafts, whatever is evicted."""

    def answers(questions):
        core = hash_core(
            embedded.path(),
            runner=AdapterMachine,
            adapters=(LoraAdapter("a", Path("a")), LoraAdapter("b", Path("b"))),
            kv_pages=pages,
            host_kv_bytes=host_pages * 16 * 2 * 4,
            speculate_tokens=4,
            eos_bias=-9.0,
        )
        served = Helpers.Served()
        for number, (adapter, salt, tokens, waits) in questions:
            prompt = [(5 * at) % 250 for at in range(tokens)]
            core.submit(
                Helpers.request(number, prompt, adapter=adapter, cache_salt=salt, max_tokens=6)
            )
            if waits:
                Helpers.drain(core, served)
                core.hint(PrefixHint(tuple(prompt), "demote", cache_salt=salt, adapter=adapter))
        Helpers.drain(core, served)
        core.close()
        return {number: served.ids(number) for number, _ in questions}

    together = answers(list(enumerate(asked)))
    for number, one in enumerate(asked):
        assert answers([(number, one)])[number] == together[number]
