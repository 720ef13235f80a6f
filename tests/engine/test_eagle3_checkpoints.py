"""EAGLE-3 heads as checkpoints: their memory, what is refused, and what `agentrt doctor` says."""

from pathlib import Path
from typing import Any

import anyio
import pytest
import torch

from agentrt import embedded
from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.eagle3 import is_eagle3
from agentrt.base.errors import ModelInvalid, UsageError
from agentrt.cli.doctor import compute_report, lines_of, start
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.process.main import load_core
from agentrt.engine.runner.model_executor import ModelExecutor
from tests.engine.eagle3_heads import save_head


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of five layers."""
    from tests.engine.conftest import save_model

    path = tmp_path_factory.mktemp("target")
    save_model("llama", path, num_hidden_layers=5)
    return path


def config_of(target: Path, head: Path | None, **settings: Any) -> EngineConfig:
    settings = {"threads": 1, "dtype": "float32", "kv_pages": 16, **settings}
    return EngineConfig(
        target, draft_model=head, speculate_tokens="auto" if head else "off", **settings
    )


@pytest.mark.parametrize(
    ("settings", "tensors", "said"),
    [
        ({"hidden_size": 64}, {}, "made for another model: for states of 64 values.* has .* 32"),
        ({"vocab_size": 300}, {}, "a vocabulary of 300 tokens, and this one has 262"),
        ({"num_hidden_layers": 2}, {}, "it has 2 layers"),
        ({"hidden_act": "gelu"}, {}, "its activation is gelu"),
        ({"intermediate_size": None}, {}, "does not say intermediate_size"),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 4]}},
            {},
            r"before layers \[1, 2, 5\] of a target that has 5",
        ),
        ({"eagle_config": {"use_aux_hidden_state": False}}, {}, "the last state of its target"),
        ({}, {"fc.weight": None}, "it lacks fc.weight"),
        ({}, {"midlayer.hidden_norm.weight": None}, "it lacks midlayer.hidden_norm.weight"),
        ({}, {"d2t": None}, "it lacks d2t"),
        ({}, {"d2t": torch.full((64,), 250)}, "d2t names no 64 tokens"),
        ({}, {"lm_head.weight": torch.zeros(63, 32)}, r"lm_head.weight is \(63, 32\)"),
        ({}, {"embed_tokens.weight": torch.zeros(262, 31)}, r"embed_tokens.weight is \(262, 31\)"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(settings, tensors, said, target, tmp_path):
    save_head(tmp_path / "head", tensors=tensors, **{"head_dim": 16, **settings})
    with pytest.raises(ModelInvalid, match=said) as raised:
        ModelExecutor(config_of(target, tmp_path / "head"), FakeClock())
    assert str(tmp_path / "head") in str(raised.value)
    assert raised.value.hint


def test_a_model_without_states_has_no_head(model_dir, tmp_path, engine):
    engine.save_model("gpt_neox", tmp_path / "target")
    save_head(tmp_path / "head")
    with pytest.raises(ModelInvalid, match="goes through transformers"):
        ModelExecutor(config_of(tmp_path / "target", tmp_path / "head"), FakeClock())


def test_a_head_is_no_model(tmp_path):
    save_head(tmp_path)
    assert is_eagle3(tmp_path)
    assert not is_eagle3(embedded.path())
    with pytest.raises(ModelInvalid, match="drafts for a model and is none itself"):
        load_core(EngineConfig(tmp_path), FakeClock())
    said = compute_report(EngineConfig(tmp_path))["report"]
    assert "drafts for a model and is none itself" in said["path_reason"]
    started, code = anyio.run(start, EngineConfig(tmp_path))
    assert "drafts for a model and is none itself" in started["engine"]
    assert code == ModelInvalid.exit_code


def test_what_is_no_directory_is_no_head(tmp_path):
    (tmp_path / "file").write_text("no model")
    assert not is_eagle3(tmp_path / "file")
    with pytest.raises(ModelInvalid, match="is not a directory"):
        plan_load(EngineConfig(tmp_path / "file"))


def test_a_head_without_drafts_is_refused(target, tmp_path):
    save_head(tmp_path / "head")
    config = EngineConfig(target, threads=1, draft_model=tmp_path / "head")
    with pytest.raises(UsageError, match="--speculate-tokens off"):
        ModelExecutor(config, FakeClock())


def test_the_memory_of_its_keys_and_states_is_counted(target, tmp_path):
    save_head(tmp_path / "head")
    pages = []
    for head in (None, tmp_path / "head"):
        config = config_of(target, head, kv_pages=0, kv_bytes=1_000_000)
        executor = ModelExecutor(config, FakeClock())
        pages.append(executor.pages)
        token = 5 * 2 * 2 * 8 * 4 + (2 * 2 * 16 * 4 + 32 * 4 if head else 0)
        assert executor.page_bytes == 16 * token
        assert executor.pages == 1_000_000 // (16 * token)
        executor.close()
    assert pages[1] < pages[0]


def test_doctor_says_what_drafts(target, tmp_path):
    save_head(tmp_path / "head")
    told = "\n".join(lines_of(compute_report(config_of(target, tmp_path / "head"))))
    assert (
        "draft model    an EAGLE-3 head on the states before layers 1, 2, 4 of 5, "
        "drafts 64 of 262 tokens"
    ) in told
    save_head(tmp_path / "other", vocab_size=300)
    told = "\n".join(lines_of(compute_report(config_of(target, tmp_path / "other"))))
    assert "draft model    cannot be used: the EAGLE-3 head" in told
    told = "\n".join(lines_of(compute_report(config_of(target, target))))
    assert "draft model    a model of its own: llama on the fast path" in told
