"""A model in a GGUF file computes what its checkpoint directory computes."""

import os
import shutil

import pytest
import torch

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.checkpoint import read_config, tensor_shapes, tensors
from agentrt.engine.models.gguf.architecture import checkpoint_name
from agentrt.engine.models.load_plan import dtype_name, plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.rope import angles
from agentrt.engine.process.forecasts import load_forecast_s
from agentrt.engine.process.main import load_core
from tests.engine.gguf_models import greedy_ids, write_model
from tests.gguf_writer import gguf_bytes

PROMPTS = (
    [(3 * at) % 250 for at in range(40)],
    [7, 7, 9],
    [(5 * at + 1) % 250 for at in range(19)],
)
CPU = torch.device("cpu")
FAMILIES = [("llama", "llama"), ("mistral", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def serve(path, engine, **settings):
    return greedy_ids(path, engine, PROMPTS, 12, **settings)


def plain_tensors(path, dtype=torch.float32):
    read = dict(tensors(path, dtype, CPU))
    return {name: weight for name, weight in read.items() if isinstance(weight, torch.Tensor)}


def refusal(path):
    with pytest.raises(ModelInvalid) as caught:
        load_model(EngineConfig(path, kv_pages=8))
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value.message


def shape_of(path):
    return plan_load(EngineConfig(path)).shape


def written(model_dir, path, kind="llama", architecture="llama", stored="F32", **more):
    own = {name.replace("arch.", f"{architecture}."): value for name, value in more.items()}
    return write_model(path / "x.gguf", model_dir(kind), architecture, stored, **own)


@pytest.mark.parametrize(("kind", "architecture"), FAMILIES)
def test_weights_and_shape_are_those_of_the_directory(kind, architecture, model_dir, tmp_path):
    window = {"arch.attention.sliding_window": 7} if kind == "mistral" else {}
    path, folder = written(model_dir, tmp_path, kind, architecture, **window), model_dir(kind)
    assert tensor_shapes(path) == tensor_shapes(folder)
    expected, found = (plain_tensors(place) for place in (folder, path))
    assert expected.keys() == found.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name
    one, other = (plan_load(EngineConfig(place, self_check="never")) for place in (path, folder))
    assert one.shape == other.shape
    assert one.context == other.context
    assert one.hf_config["dtype"] == "float32"


@pytest.mark.parametrize(("kind", "architecture"), FAMILIES)
def test_tokens_are_those_of_the_directory(kind, architecture, model_dir, tmp_path, engine):
    window = {"arch.attention.sliding_window": 7} if kind == "mistral" else {}
    path = written(model_dir, tmp_path, kind, architecture, **window)
    assert serve(path, engine) == serve(model_dir(kind), engine)


@pytest.mark.parametrize("stored", ["F16", "BF16"])
def test_half_precision_is_read_without_a_copy(stored, model_dir, tmp_path):
    path = written(model_dir, tmp_path, stored=stored)
    dtype = {"F16": torch.float16, "BF16": torch.bfloat16}[stored]
    assert read_config(path, weights=True)["dtype"] == str(dtype).removeprefix("torch.")
    found, again = (plain_tensors(path, dtype) for _ in range(2))
    name = "model.layers.0.mlp.up_proj.weight"
    assert found[name].data_ptr() == again[name].data_ptr()
    exact = plain_tensors(model_dir("llama"))[name]
    if stored == "F16":
        assert torch.equal(found[name], exact.half())
    else:
        assert torch.equal(
            found[name].view(torch.int16),
            exact.view(torch.int32).div(65536, rounding_mode="floor").to(torch.int16),
        )


@pytest.mark.parametrize(("kind", "architecture"), [("llama", "llama"), ("qwen3", "qwen3")])
def test_transformers_computes_the_same_model(kind, architecture, model_dir, tmp_path):
    report = load_model(
        EngineConfig(written(model_dir, tmp_path, kind, architecture), self_check="always")
    ).report
    assert (report.path, report.self_check[:4]) == ("fast", "held")


def test_a_factor_for_each_wavelength_is_the_scaling_of_llama_3(tmp_path, engine):
    folder = tmp_path / "folder"
    engine.save_model("llama", folder, rope_parameters=LLAMA3)
    shape = shape_of(folder)
    plain = angles(shape.ropes[0], 8, 2, CPU)
    assert shape.ropes[0].llama3
    bare = torch.tensor([10_000.0 ** (-2 * pair / 8) for pair in range(4)])
    turned = torch.atan2(plain[1, 4:], plain[1, :4])
    path = write_model(tmp_path / "x.gguf", folder, "llama", factors=(bare / turned).tolist())
    assert plan_load(EngineConfig(path)).context.tokens == shape.positions
    read = shape_of(path)
    assert torch.allclose(
        angles(read.ropes[0], 8, 200, CPU), angles(shape.ropes[0], 8, 200, CPU), atol=1e-4
    )
    assert load_model(EngineConfig(path, self_check="always")).report.self_check[:4] == "held"
    assert serve(path, engine) == serve(folder, engine)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "factor": 3.0}


@pytest.mark.parametrize(
    ("rope", "more"),
    [
        (LINEAR, {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 3.0}),
        (LINEAR, {"llama.rope.scale_linear": 3.0}),
        (
            YARN,
            {
                "llama.rope.scaling.type": "yarn",
                "llama.rope.scaling.factor": 4.0,
                "llama.rope.scaling.original_context_length": 64,
            },
        ),
        ({"rope_type": "default"}, {"llama.rope.scaling.type": "none"}),
        ({"rope_type": "default"}, {"llama.rope.scaling.factor": 1.0}),
    ],
)
def test_scaling_of_positions(rope, more, tmp_path, engine):
    folder = tmp_path / "folder"
    engine.save_model("llama", folder, rope_parameters={"rope_theta": 5e5, **rope})
    path = write_model(tmp_path / "x.gguf", folder, "llama", **more)
    one, other = (plan_load(EngineConfig(place)).shape for place in (path, folder))
    assert one == other


def test_the_output_layer_is_the_embedding_if_there_is_none(model_dir, tmp_path):
    assert read_config(written(model_dir, tmp_path), weights=True)["tie_word_embeddings"]
    other = written(model_dir, tmp_path, "qwen2", "qwen2")
    assert not read_config(other, weights=True)["tie_word_embeddings"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"general.architecture": "mamba"}, "'mamba', and GGUF is read of: llama, qwen2, qwen3"),
        ({"general.type": "adapter"}, "holds a adapter, no model"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"llama.expert_count": 4}, "llama.expert_count"),
        ({"llama.logit_scale": 0.5}, "llama.logit_scale"),
        ({"llama.attention.clamp_kqv": 8.0}, "llama.attention.clamp_kqv"),
        ({"llama.attention.causal": False}, "both directions"),
        ({"llama.attention.value_length": 4}, "keys of 8 values"),
        ({"llama.rope.dimension_count": 4}, "4 turn"),
        ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, "longrope"),
        ({"llama.block_count": None}, "does not say llama.block_count"),
        ({"llama.block_count": 1}, "it holds model.layers.1"),
        ({"llama.block_count": 3}, "it lacks model.layers.2"),
        ({"llama.block_count": 1 << 20}, "num_hidden_layers is 1048576"),
        ({"llama.embedding_length": 16}, "model.embed_tokens.weight is"),
        ({"llama.attention.head_count": 0}, "it has 0 heads"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "is nan"),
    ],
)
def test_what_is_not_read_is_refused(more, message, model_dir, tmp_path):
    assert message in refusal(written(model_dir, tmp_path, **more))


@pytest.mark.parametrize("more", [{"llama.vocab_size": 3}, {"llama.expert_count": 0}])
def test_what_changes_nothing_is_left_out(more, model_dir, tmp_path):
    plain, path = written(model_dir, tmp_path), tmp_path / "more"
    path.mkdir()
    one, other = (
        plan_load(EngineConfig(file)).shape for file in (plain, written(model_dir, path, **more))
    )
    assert one == other


@pytest.mark.parametrize("kind", ["Q2_K", "IQ4_NL"])
def test_types_without_a_kernel_are_refused_by_name(kind, model_dir, tmp_path):
    sizes = {"Q2_K": 84 * 32, "IQ4_NL": 18 * 32 * 8}
    extra = {"blk.0.ffn_up.weight": (kind, (32, 256), bytes(sizes[kind]))}
    path = written(model_dir, tmp_path, extra=extra)
    assert f"holds blk.0.ffn_up.weight in {kind}, which no kernel" in refusal(path)


def test_a_tensor_of_an_unknown_meaning_is_refused(model_dir, tmp_path):
    extra = {"blk.0.attn_sinks.weight": ("F32", (4,), bytes(16))}
    assert "holds blk.0.attn_sinks.weight" in refusal(written(model_dir, tmp_path, extra=extra))
    extra = {"blk.0.attn_q_norm.weight": ("F32", (8,), bytes(32))}
    assert "it holds model.layers.0.self_attn.q_norm.weight" in refusal(
        written(model_dir, tmp_path, extra=extra)
    )
    assert checkpoint_name("blk.0.attn_q.scale") is None
    assert checkpoint_name("blk.99999.attn_q.weight") is None


def test_the_process_refuses_before_torch_is_imported(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf_bytes({}, {})[:20])
    with pytest.raises(ModelInvalid, match="no whole GGUF file"):
        load_core(EngineConfig(path), FakeClock())


def test_the_forecast_of_loading_counts_the_file(model_dir, tmp_path):
    path = written(model_dir, tmp_path)
    alone = load_forecast_s(EngineConfig(path))
    assert load_forecast_s(EngineConfig(tmp_path / "none.gguf")) < alone
    both = load_forecast_s(EngineConfig(path, draft_model=path))
    assert both - alone == pytest.approx(path.stat().st_size / 200e6)


def test_a_draft_model_may_be_a_file(model_dir, tmp_path, engine):
    path = written(model_dir, tmp_path)
    copy = tmp_path / "draft.gguf"
    shutil.copy(path, copy)
    assert serve(path, engine, draft_model=copy, speculate_tokens="auto") == serve(path, engine)


@pytest.mark.parametrize(("stored", "dtype"), [("F16", "bfloat16"), ("F32", "float32")])
def test_a_large_file_in_half_precision_gets_a_dtype_with_kernels(
    stored, dtype, model_dir, tmp_path
):
    path = written(model_dir, tmp_path, stored=stored)
    assert dtype_name(EngineConfig(path)) == "float32"
    os.truncate(path, 201 << 20)  # a hole behind the last tensor
    assert dtype_name(EngineConfig(path)) == dtype
    assert dtype_name(EngineConfig(path, dtype="float16")) == "float16"
