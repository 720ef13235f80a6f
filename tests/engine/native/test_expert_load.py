"""Expert load: tokens are counted by request, layer and expert, and for nobody else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.expert_load import ExpertLoad
from agentrt.engine.models.native.routing import Capacity, trained
from agentrt.engine.models.native.shape import DecoderShape

CPU = torch.device("cpu")
PROMPTS = [[7, 3, 9, 200, 31, 8, 5], [1, 2, 3], [77] * 12]


@pytest.fixture(scope="module")
def shape(model_dir):
    found = plan_load(EngineConfig(model_dir("mixtral"), self_check="never")).shape
    assert isinstance(found, DecoderShape)
    return found


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    groups=st.lists(st.integers(0, 3), max_size=9),
    drops=st.booleans(),
    seed=st.integers(0, 99),
)
def test_each_group_has_its_choices_and_no_others(shape, groups, drops, seed):
    load = ExpertLoad(shape, 4, CPU)
    routing = Capacity(0.5, "drop") if drops else trained
    scores = torch.randn(len(groups), 4, generator=torch.Generator().manual_seed(seed))
    rows = torch.tensor(groups, dtype=torch.int64)
    routes = routing(scores, shape.experts)
    for _ in range(2):
        counted = load.counted(1, routing, rows)(scores, shape.experts)
        assert torch.equal(counted.chosen, routes.chosen)
        assert torch.equal(counted.shares, routes.shares)
    for group in range(4):
        chosen = routes.chosen[rows == group].flatten()
        expected = 2 * chosen.bincount(minlength=5)[:4]
        first, second = load.take(group)
        assert first == (0, 0, 0, 0)
        assert list(second) == expected.tolist()
        assert load.take(group) == ((0,) * 4,) * 2


def served(core, engine, prompts, **sampling):
    for number, prompt in enumerate(prompts):
        core.submit(engine.request(number, prompt, **{"max_tokens": 6, **sampling}))
    return engine.drain(core)


@pytest.mark.parametrize("kind", ["mixtral", "qwen2_moe", "gpt_oss"])
def test_a_request_is_told_of_its_own_tokens(kind, build, engine, model_dir):
    """The last layer computes the rows whose logits are wanted, the others all."""
    plan = plan_load(EngineConfig(model_dir(kind), self_check="never"))
    assert isinstance(plan.shape, DecoderShape)
    assert plan.shape.experts is not None
    each = plan.shape.experts.experts_per_token
    together = served(build(kind, expert_load=True, share_prefixes=False), engine, PROMPTS)
    for number, prompt in enumerate(PROMPTS):
        ledger = together.ends[number].ledger
        computed = len(prompt) + ledger.output_tokens - 1
        sums = [sum(layer) for layer in ledger.expert_tokens]
        assert sums == [each * computed, each * ledger.output_tokens]
        alone = served(build(kind, expert_load=True), engine, [prompt])
        assert alone.ends[0].ledger.expert_tokens == ledger.expert_tokens


def test_counts_outlast_a_preemption(build, engine):
    """Sequences that wait give their counters to others, and lose nothing."""
    core = build("mixtral", expert_load=True, kv_pages=9, page_tokens=4, max_running=2)
    prompts = [[number, *range(3, 12)] for number in range(4)]
    seen = served(core, engine, prompts, max_tokens=16)
    assert any(end.ledger.preemptions for end in seen.ends.values())
    for end in seen.ends.values():
        ledger = end.ledger
        rows = sum(ledger.expert_tokens[0]) // 2
        assert rows >= ledger.prompt_tokens - ledger.cached_tokens + ledger.output_tokens - 1
        assert sum(ledger.expert_tokens[1]) // 2 >= ledger.output_tokens


def test_nothing_is_counted_unless_it_is_asked_for(build, engine):
    core = build("mixtral")
    assert served(core, engine, PROMPTS).ends[0].ledger.expert_tokens == ()
    assert core.executor.runner.expert_load is None


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3"])
def test_what_has_no_experts_here_refuses_to_count(kind, model_dir):
    config = EngineConfig(model_dir(kind), expert_load=True, self_check="never")
    with pytest.raises(EngineUnavailable, match="counted by expert_load"):
        load_model(config)
