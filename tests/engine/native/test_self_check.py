"""Decoders computed here are held to transformers, once, and loudly where they differ."""

import json
import logging
import subprocess
import sys

import pytest
import torch

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native import rope, self_check, stack_network, torch_network


@pytest.fixture
def path(engine, tmp_path, monkeypatch):
    """A checkpoint that nobody has checked yet."""
    monkeypatch.setattr(self_check, "cache_directory", lambda: tmp_path / "checked")
    engine.save_model("llama", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def asked(monkeypatch):
    """How often transformers was asked."""
    times = []
    ask = self_check.reference_logits

    def counted(*args):
        times.append(args)
        return ask(*args)

    monkeypatch.setattr(self_check, "reference_logits", counted)
    return times


def wrong_angles(*args):
    """Positions that turn the wrong way."""
    return [table.flip(0) for table in rope.angle_tables(*args)]


@pytest.fixture
def broken(monkeypatch):
    """The engine's own decoders compute something else."""
    monkeypatch.setattr(torch_network, "angle_tables", wrong_angles)
    monkeypatch.setattr(stack_network, "angle_tables", wrong_angles)


def test_an_unknown_checkpoint_is_checked_once(path, asked):
    first, second = load_model(EngineConfig(path)), load_model(EngineConfig(path))
    assert len(asked) == 1
    assert first.report == second.report
    assert first.report.path == "fast"
    assert first.report.self_check.startswith("held: logits are within")


@pytest.mark.parametrize(
    "settings", [{"dtype": "bfloat16"}, {"kernels": "torch"}, {"kernels": "reference"}], ids=str
)
def test_what_computes_otherwise_is_checked_anew(settings, path, asked):
    load_model(EngineConfig(path))
    assert plan_load(EngineConfig(path)).self_check.state == "held"
    assert plan_load(EngineConfig(path, **settings)).self_check.state == "unknown"


def test_another_config_is_checked_anew(path):
    load_model(EngineConfig(path))
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rms_norm_eps": 1e-4}))
    assert plan_load(EngineConfig(path)).self_check.state == "unknown"


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_what_differs_goes_through_transformers_and_says_so(kernels, path, broken, asked, caplog):
    config = EngineConfig(path, kernels=kernels)
    with caplog.at_level(logging.WARNING):
        report = load_model(config).report
    assert report.path == "slow"
    assert "logits differ" in report.path_reason
    assert any("goes through transformers: logits differ" in said for said in caplog.messages)
    assert load_model(config).report.path_reason == report.path_reason
    assert len(asked) == 1


def test_always_asks_again(path, asked):
    for _ in range(2):
        load_model(EngineConfig(path, self_check="always"))
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"self_check": "never"}, "self_check=never"),
        ({"random_weights": True}, "random weights have nothing to be held to"),
    ],
)
def test_what_is_not_asked_says_why(settings, reason, path, asked):
    report = load_model(EngineConfig(path, **settings)).report
    assert report.self_check == f"trusted: {reason}"
    assert not asked


def test_broken_answers_are_asked_again(path, asked):
    load_model(EngineConfig(path))
    [kept] = self_check.cache_directory().glob("*.json")
    kept.write_text("[]")
    load_model(EngineConfig(path))
    assert len(asked) == 2


def test_a_home_that_cannot_be_written_does_not_matter(path, monkeypatch, caplog):
    monkeypatch.setattr(self_check, "cache_directory", lambda: path / "config.json" / "checked")
    assert load_model(EngineConfig(path)).report.path == "fast"
    assert any("self-check is not kept" in said for said in caplog.messages)


def test_logits_that_are_no_numbers_are_not_equal():
    theirs = torch.randn((4, 8), generator=torch.Generator().manual_seed(0))
    assert self_check.compare_logits(theirs, theirs, torch.float32).state == "held"
    assert self_check.compare_logits(theirs * torch.nan, theirs, torch.float32).state == "failed"
    silent = torch.zeros_like(theirs)  # as of a token whose embedding is zero
    assert self_check.compare_logits(silent, silent, torch.float32).state == "held"
    assert self_check.compare_logits(theirs, silent, torch.float32).state == "failed"
    assert self_check.compare_logits(theirs * 1.01, theirs, torch.float32).state == "failed"


def test_the_embedded_model_starts_without_transformers():
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from agentrt.base.config import EngineConfig\n"
        "from agentrt.engine.models.loader import load_model\n"
        "report = load_model(EngineConfig(Path(sys.argv[1]))).report\n"
        "assert report.path == 'fast', report\n"
        "assert 'comes with agentrt' in report.self_check\n"
        "assert 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(embedded.path())], check=True, timeout=120)


def test_the_embedded_model_equals_transformers():
    config = EngineConfig(embedded.path(), self_check="always")
    assert load_model(config).report.self_check.startswith("held")
