"""What a checkpoint runs on here, told without reading its weights."""

import json

import pytest
import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.checkpoint import tensor_shapes
from agentrt.engine.models.native.model_config import Declined, shape_of
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import shape_mismatch, weight_shapes
from agentrt.engine.models.report import model_report
from agentrt.engine.ops import kernel_set
from agentrt_kernels.contract import KernelsUnavailable


@pytest.fixture
def facts(model_dir):
    """The config of a kind of model."""
    return lambda kind: json.loads((model_dir(kind) / "config.json").read_text())


def unavailable(*_):
    raise KernelsUnavailable("no C++ compiler in PATH")


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("llama", {"hidden_act": "gelu"}, "its activation is gelu"),
        ("llama", {"model_type": "gptj"}, "gptj is no architecture that is computed here"),
        ("llama", {"model_type": None}, "None is no architecture that is computed here"),
        ("llama", {"rms_norm_eps": None}, "its config does not say rms_norm_eps"),
        ("llama", {"num_key_value_heads": None}, "its config does not say num_key_value_heads"),
        (
            "gpt_oss",
            {"rope_parameters": ..., "rope_theta": 1e4},
            "its config does not say how posi",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4}},
            "its positions are of type proportional",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
            "its config does not say how positions turn",
        ),
        ("qwen2", {"rope_parameters": None}, "its config does not say how positions turn"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}},
            "its config does not say how positions turn",
        ),
        (
            "llama",
            {"layer_types": ["full_attention", "sliding_attention"]},
            "it has layers of types ['full_attention', 'sliding_attention']",
        ),
        (
            "qwen2",
            {"layer_types": ["full_attention", "sliding_attention"]},
            "its config does not say how wide the windows of its layers are",
        ),
        (
            "qwen2",
            {"layer_types": None, "use_sliding_window": True, "max_window_layers": None},
            "its config does not say which layers have a window",
        ),
        ("qwen2", {"layer_types": ["mamba"] * 2}, "it has layers of types ['mamba']"),
        ("mistral", {"attention_bias": True}, "its config sets attention_bias"),
        ("mistral", {"sliding_window": ...}, "its config does not say sliding_window"),
        ("llama", {"num_key_value_heads": 3}, "its heads do not share keys evenly"),
        ("llama", {"head_dim": 7}, "its heads do not turn in halves"),
        ("llama", {"rope_parameters": [1]}, "its config cannot be read: "),
        ("granite", {"residual_multiplier": "x"}, "its config cannot be read: "),
        ("olmoe", {"clip_qkv": 8.0}, "its config sets clip_qkv"),
        ("qwen2_moe", {"use_sliding_window": True}, "its config sets use_sliding_window"),
        ("qwen3_moe", {"norm_topk_prob": None}, "its config does not say norm_topk_prob"),
        (
            "gemma2",
            {"attn_logit_softcapping": ...},
            "its config does not say attn_logit_softcapping",
        ),
        (
            "gemma2",
            {"final_logit_softcapping": ...},
            "its config does not say final_logit_softcapping",
        ),
        (
            "phi3",
            {"rope_parameters": {"rope_type": "longrope"}},
            "its config does not say how positions turn",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_what_is_not_plainly_known_is_left_to_transformers(kind, change, reason, facts):
    told = {**facts(kind), **change}
    told = {name: value for name, value in told.items() if value is not ...}
    declined = shape_of(told)
    assert isinstance(declined, Declined)
    assert declined.reason.startswith(reason)


def test_configs_of_older_versions_say_the_same(facts):
    new = facts("llama")
    old = {name: value for name, value in new.items() if name != "rope_parameters"}
    llama3 = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    assert shape_of({**old, "rope_theta": 1e4}) == shape_of(new)
    assert shape_of(old) == shape_of(new)  # Llama 2 does not say it
    scaled = shape_of({**old, "rope_theta": 5e5, "rope_scaling": {"type": "llama3", **llama3}})
    said = {"rope_type": "llama3", "rope_theta": 5e5, **llama3}
    assert scaled == shape_of({**old, "rope_parameters": said})
    assert isinstance(scaled, DecoderShape)


def test_the_first_configs_of_gemma_name_its_activation_otherwise(facts):
    said = facts("gemma")
    shape = shape_of({**said, "hidden_act": "gelu"})
    assert isinstance(shape, DecoderShape)
    assert shape == shape_of({**said, "hidden_act": "gelu_pytorch_tanh"})


def test_the_third_gemma_has_no_bound_if_its_config_says_none(facts):
    said = {name: value for name, value in facts("gemma3_text").items() if "softcap" not in name}
    shape = shape_of(said)
    assert isinstance(shape, DecoderShape)
    assert (shape.softcap, shape.logits_softcap) == (None, None)


def test_older_configs_of_windows_have_a_theta_of_their_own(facts):
    new = facts("gemma3_text")
    later = ("rope_parameters", "layer_types", "tie_word_embeddings")
    old = {name: value for name, value in new.items() if name not in later}
    scaling = {"rope_type": "linear", "factor": 8.0}
    thetas = {"rope_theta": 2e6, "rope_local_base_freq": 5e4}
    shape = shape_of({**old, **thetas, "rope_scaling": scaling, "sliding_window_pattern": 2})
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e4},
        "full_attention": {**scaling, "rope_theta": 2e6},
    }
    types = ["sliding_attention", "full_attention"]
    assert shape == shape_of({**new, "rope_parameters": ropes, "layer_types": types})
    assert isinstance(shape, DecoderShape)
    assert shape.windows == (8, None)
    assert shape.tied


def test_weights_are_those_of_the_shape_or_it_is_said_which_are_not(model_dir, facts):
    for kind in ("llama", "phi3", "mixtral", "qwen2_moe", "olmoe", "gpt_oss"):
        shape, held = shape_of(facts(kind)), tensor_shapes(model_dir(kind))
        assert isinstance(shape, DecoderShape)
        assert shape_mismatch(shape, held) is None
        for name, size in weight_shapes(shape).items():
            lacking = {one: there for one, there in held.items() if one != name}
            assert shape_mismatch(shape, lacking) == f"it lacks {name}"
            other = (*size[:-1], size[-1] + 1)
            assert shape_mismatch(shape, {**held, name: other}) == f"{name} is {other}, not {size}"
        idle = {"model.layers.0.self_attn.rotary_emb.inv_freq": (4,)}
        assert shape_mismatch(shape, {**held, **idle}) is None


def test_a_report_is_of_plain_facts(model_dir):
    fast = model_report(EngineConfig(model_dir("llama"), kernels="torch", self_check="never"))
    assert (fast.architecture, fast.path, fast.kernels) == ("llama", "fast", "torch")
    assert (fast.linear, fast.dtype, fast.device) == ("plain", "float32", "cpu")
    assert fast.self_check == "trusted: self_check=never"
    assert str(fast).startswith("llama on the fast path (")
    slow = model_report(EngineConfig(model_dir("gpt_neox")))
    assert (slow.path, slow.linear) == ("slow", "transformers'")
    assert slow.path_reason == "gpt_neox is no architecture that is computed here"


def test_what_is_refused_is_unsupported_and_why(tmp_path):
    report = model_report(EngineConfig(tmp_path / "nowhere"))
    assert report.path == "unsupported"
    assert "is not a directory" in report.path_reason


def test_no_compiler_falls_back_and_says_so(model_dir, monkeypatch, caplog):
    monkeypatch.setattr(kernel_set, "load", unavailable)
    report = model_report(EngineConfig(model_dir("llama")))
    assert report.kernels == "torch"
    assert report.kernels_reason == "cpu kernels cannot run here: no C++ compiler in PATH"
    assert any("torch's own operations take their place" in said for said in caplog.messages)


def test_kernels_that_were_asked_for_are_not_replaced(monkeypatch):
    monkeypatch.setattr(kernel_set, "load", unavailable)
    with pytest.raises(EngineUnavailable, match="kernels=cpu cannot run here: no C"):
        kernel_set.choose_kernels("cpu", "cpu", torch.float32)


def test_half_precision_on_a_cpu_keeps_to_torch():
    chosen = kernel_set.choose_kernels("auto", "cpu", torch.float16)
    assert chosen.kernels.name == "torch"
    assert "not in torch.float16" in chosen.reason
