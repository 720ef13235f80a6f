"""Draft models as checkpoints beside their target: memory, refusals, tokens of real forwards."""

from pathlib import Path

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ModelInvalid, UsageError
from agentrt.engine.runner.model_executor import ModelExecutor
from tests.engine.mixed_requests import STEM, holds_nothing

NUMBERS = ConstraintSpec("json", '{"type":"array","items":{"type":"integer"},"maxItems":9}')


@pytest.fixture(scope="session")
def small_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer with the tokenizer of the others."""
    from tests.engine.conftest import save_model

    path = tmp_path_factory.mktemp("small")
    save_model("llama", path, num_hidden_layers=1, num_key_value_heads=4)
    return path


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("equal", [False, True])
def test_tokens_are_those_without_a_draft_model(
    temperature, equal, build, model_dir, small_dir, engine
):
    """Over chunks, prefix hits and grammars, in batches in which rows of all kinds meet."""
    told, accepted, rejected = [], 0, 0
    for draft in (None, model_dir("llama") if equal else small_dir):
        core = build(
            "llama",
            page_tokens=8,
            prefill_chunk_tokens=16,
            dtype="float32",
            speculate_tokens=4 if draft else "off",
            draft_model=draft,
        )
        for turn in range(2):
            for number in range(4):
                constraint = NUMBERS if number % 2 else None
                prompt = [*STEM[: 40 + number // 2], 7, turn]
                how = {"max_tokens": 30, "temperature": temperature, "seed": number}
                one = engine.request(10 * turn + number, prompt, constraint=constraint, **how)
                core.submit(engine.replace(one, site=f"{turn} {number}"))
            served = engine.drain(core)
            told.append([served.ids(10 * turn + number) for number in range(4)])
            counts = [d for end in served.ends.values() for d in end.ledger.drafts]
            accepted += sum(d.accepted_tokens for d in counts if d.source == "model")
            rejected += sum(d.rejected_tokens for d in counts if d.source == "model")
        holds_nothing(core)
    assert told[:2] == told[2:]
    assert accepted > 0
    assert (rejected == 0) == equal


@pytest.mark.parametrize("kv_bytes", [400_000, 1_000_000])
def test_the_memory_of_both_is_counted(kv_bytes, model_dir, small_dir):
    alone = EngineConfig(model_dir("llama"), kv_bytes=kv_bytes, threads=1, dtype="float32")
    both = EngineConfig(
        model_dir("llama"),
        kv_bytes=kv_bytes,
        threads=1,
        dtype="float32",
        speculate_tokens="auto",
        draft_model=small_dir,
    )
    pages = []
    for config in (alone, both):
        executor = ModelExecutor(config, FakeClock())
        pages.append(executor.pages)
        executor.close()
    page_bytes = kv_bytes // pages[0] // 1024 * 1024
    assert page_bytes == 2 * 2 * 16 * 2 * 8 * 4  # two layers of two heads
    assert pages[1] == kv_bytes // (2 * page_bytes)  # the draft's: one layer of four heads


def test_another_vocabulary_is_refused(model_dir, tmp_path):
    from agentrt import embedded

    config = EngineConfig(
        model_dir("llama"), threads=1, speculate_tokens="auto", draft_model=Path(embedded.path())
    )
    with pytest.raises(ModelInvalid, match=r"another vocabulary than .*: token \d+ differs"):
        ModelExecutor(config, FakeClock())


def test_a_draft_model_without_drafts_is_refused(model_dir):
    config = EngineConfig(model_dir("llama"), threads=1, draft_model=model_dir("llama"))
    with pytest.raises(UsageError, match="--speculate-tokens off"):
        ModelExecutor(config, FakeClock())
