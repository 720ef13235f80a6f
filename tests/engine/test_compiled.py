"""Compiled models: they compute what their sources compute, and are refused once they are stale."""

from __future__ import annotations

import json
import os
import platform
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from agentrt.base.compiled_model import MANIFEST
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.errors import AgentrtError, EngineUnavailable, ModelInvalid, UsageError
from agentrt.engine.models.compiled.manifest import (
    PACKED_FILE,
    PLAIN_FILE,
    read_manifest,
)
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.report import model_report
from agentrt.engine.ops.cpu_threads import ThreadChoice, choose_threads
from agentrt.engine.runner.model_compiler import compile_model
from agentrt_kernels.cpu.kernel_set import CpuKernels
from tests.engine.compiled_models import config_of, edit, logits_of, refusal, same
from tests.engine.gguf_models import write_model
from tests.engine.published_formats import written
from tests.engine.quantised_gguf import quantised_model

FORMATS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bf16": {"dtype": "bfloat16"},
    "int8": {"weights": "int8"},
    "int8 in bf16": {"weights": "int8", "dtype": "bfloat16", "weight_group": 32},
    "int4": {"weights": "int4", "head_weights": "checkpoint"},
}
DENSE = ("qwen2", "qwen3", "gemma2", "gemma3_text", "granite", "phi3", "smollm3")

pytestmark = pytest.mark.usefixtures("native_kernels")


@pytest.fixture
def source(engine, tmp_path):
    folder = tmp_path / "source"
    engine.save_model("llama", folder)
    return folder


@pytest.fixture
def compiled(source, tmp_path):
    compile_model(config_of(source, weights="int4"), tmp_path / "compiled")
    return tmp_path / "compiled"


@pytest.mark.parametrize("form", FORMATS)
def test_tokens_are_those_of_the_source(form, source, engine, tmp_path):
    same(source, tmp_path / "compiled", engine, **FORMATS[form])


@pytest.mark.parametrize("kind", DENSE)
def test_families_keep_their_norms_and_biases(kind, engine, tmp_path):
    folder = tmp_path / "source"
    engine.save_model(kind, folder)
    same(folder, tmp_path / "compiled", engine)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_K"])
def test_a_gguf_file_becomes_a_directory(kind, engine, tmp_path):
    if kind == "F16":
        engine.save_model("llama", tmp_path / "folder")
        path = write_model(tmp_path / "x.gguf", tmp_path / "folder", "llama", kind)
    else:
        path, _ = quantised_model(engine, tmp_path, lambda _: kind)
    same(path, tmp_path / "compiled", engine)
    stored = read_manifest(tmp_path / "compiled").stored_name
    assert stored == ("" if kind == "F16" else kind)


@pytest.mark.parametrize("name", ["gptq 4 desc_act", "awq", "nf4", "fp8"])
def test_published_formats_keep_their_codes(name, engine, tmp_path):
    from tests.engine.published_formats import FORMATS as PUBLISHED
    from tests.engine.published_formats import WIDE

    found = next(one for one in PUBLISHED if one.startswith(name.split()[0]))
    engine.save_model("qwen2", tmp_path / "plain", **WIDE)
    same(written(found, tmp_path / "plain"), tmp_path / "compiled", engine)
    assert "quantization_config" not in json.loads((tmp_path / "compiled/config.json").read_text())


def test_rows_of_bytes_are_chosen_at_the_start(source, compiled):
    kernels = plan_load(EngineConfig(compiled)).kernels.kernels
    assert isinstance(kernels, CpuKernels)
    if not kernels.has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    expected, _ = logits_of(config_of(source, weights="int4", activations="int8"))
    found, _ = logits_of(EngineConfig(compiled, activations="int8"))
    assert torch.equal(found, expected)


def test_weights_are_mapped(compiled):
    model = load_model(EngineConfig(compiled))
    if platform.system() == "Linux":
        assert str(compiled / PACKED_FILE) in Path("/proc/self/maps").read_text()
    assert model.network.quantised_bytes


def test_files_are_safetensors_whose_tensors_begin_lines(compiled):
    with safe_open(compiled / PACKED_FILE, framework="pt") as opened:
        names = list(opened.keys())
        assert "layers.0.gate_up.codes" in names
        for name in names:
            assert opened.get_tensor(name).data_ptr() % 64 == 0
    assert not [one for one in compiled.iterdir() if one.suffix in (".bin", ".pt", ".pkl")]


def test_a_start_takes_the_comparison_with_transformers_from_it(source, tmp_path):
    compile_model(EngineConfig(source), tmp_path / "compiled")
    assert read_manifest(tmp_path / "compiled").check_state == "held"
    report = load_model(EngineConfig(tmp_path / "compiled")).report
    assert report.self_check.startswith("held: logits are within")
    assert report.self_check.endswith("when it was compiled")


def test_the_report_says_what_it_is(source, compiled):
    report = model_report(EngineConfig(compiled))
    assert report.compiled.startswith(f"from {source}, by agentrt ")
    assert report.linear == "int4"
    assert report.linear_reason.startswith("memory-mapped as they were packed")
    assert report.weight_bytes > 0


STALE = {
    "version": ("0.0.1", "agentrt 0.0.1 compiled it, and this is"),
    "layout": ("beef", "other code lays weights out: beef then"),
    "machine": ("vax", "it is for vax, and this machine is"),
    "features": (["avx512_quick"], "it is for processors with avx512_quick, which this one lacks"),
}


@pytest.mark.parametrize("place", STALE)
def test_what_differs_is_named_with_the_command(place, source, compiled):
    value, reason = STALE[place]
    edit(compiled, **{place: value})
    error = refusal(compiled)
    assert reason in error.message
    command = f"agentrt compile {source} --out {compiled} --weights int4"
    assert error.hint == f"Run `{command}`"
    assert shlex.split(read_manifest(compiled).command) == shlex.split(command)


def change_size(source):
    file = source / "config.json"
    file.write_text(file.read_text() + "\n")
    return "config.json has"


def change_content(source):
    file = source / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(1, 1))
    return "model.safetensors was written anew"


def add_file(source):
    (source / "chat_template.jinja").write_text("{{ messages }}")
    return "chat_template.jinja is new"


@pytest.mark.parametrize("change", [change_size, change_content, add_file])
def test_a_changed_source_is_refused(change, source, compiled):
    reason = change(source)
    error = refusal(compiled)
    assert f"its source {source} has changed: {reason}" in error.message


def test_a_copied_or_missing_source_is_none_of_its_business(source, compiled, tmp_path):
    for file in source.iterdir():
        os.utime(file, ns=(1, 1))  # as a copy that keeps no times
    load_model(EngineConfig(compiled))
    source.rename(tmp_path / "elsewhere")
    load_model(EngineConfig(compiled))
    assert "which is not here" in model_report(EngineConfig(compiled)).compiled


@pytest.mark.parametrize("name", [PACKED_FILE, PLAIN_FILE, "tokenizer.json"])
def test_cut_files_are_refused(name, compiled):
    file = compiled / name
    file.write_bytes(file.read_bytes()[:-64])
    assert f"{name} has " in refusal(compiled).message
    file.unlink()
    assert f"{name} is missing" in refusal(compiled).message
    assert "instead of" not in refusal(compiled).message


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"source": 3}'])
def test_a_broken_manifest_is_one_error(text, compiled):
    (compiled / MANIFEST).write_text(text)
    assert MANIFEST in refusal(compiled).message


def damage(path, at, data):
    raw = bytearray(path.read_bytes())
    raw[at : at + len(data)] = data
    path.write_bytes(raw)


def test_headers_that_lie_are_refused(compiled):
    file = compiled / PACKED_FILE
    whole = file.read_bytes()
    for data in (b"\xff" * 8, bytes(8), (8).to_bytes(8, "little")):
        damage(file, 0, data)
        assert PACKED_FILE in refusal(compiled).message
        file.write_bytes(whole)
    header = whole[8:300].replace(b'"shape":[', b'"shape":[9', 1)[:292]
    damage(file, 8, header)
    refusal(compiled)


@pytest.mark.parametrize("form", [(4, 64, 0), (8, 32, 0), (4, 7, 0), (0, 0, 0), (4, 32, 1)])
def test_codes_of_another_form_never_reach_the_kernels(form, compiled):
    model = read_manifest(compiled)
    forms = json.loads((compiled / MANIFEST).read_text())["matrices"]
    forms["layers.1.down"] = dict(zip(("bits", "group", "coding"), form, strict=True))
    assert model.matrices["layers.1.down"].bits == 4
    edit(compiled, matrices=forms)
    assert "layers.1.down" in refusal(compiled).message


def test_a_config_of_another_shape_never_reaches_the_kernels(compiled):
    file = compiled / "config.json"
    text = file.read_text()
    for name in ("intermediate_size", "vocab_size", "num_key_value_heads"):
        size = json.loads(text)[name]
        changed = text.replace(f'"{name}": {size}', f'"{name}": {size * 2}'.rstrip())
        file.write_text(changed)
        edit(compiled, files={})
        assert "holds other weights than its config.json says" in refusal(compiled).message


def test_settings_that_it_fixes_are_refused(compiled):
    error = refusal(compiled, UsageError, weights="int8")
    assert "was compiled with weights=int4, and weights=int8 is asked for" in error.message
    refusal(compiled, UsageError, dtype="bfloat16")
    refusal(compiled, EngineUnavailable, kernels="torch")
    refusal(compiled, EngineUnavailable, device="cuda")
    load_model(EngineConfig(compiled, weights="int4", dtype="float32"))


def test_random_weights_need_nothing_of_it(compiled):
    edit(compiled, version="0.0.1")
    assert load_model(EngineConfig(compiled, random_weights=True)).compiled is None


def test_only_a_compiled_directory_is_replaced(source, compiled, tmp_path):
    compile_model(config_of(source), compiled)
    assert read_manifest(compiled).settings.weights == "checkpoint"
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="exists, and is no compiled model"):
        compile_model(config_of(source), tmp_path / "mine")
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_what_cannot_be_compiled_is_said(engine, compiled, tmp_path):
    with pytest.raises(ModelInvalid, match="is compiled already"):
        compile_model(config_of(compiled), tmp_path / "twice")
    engine.save_model("mixtral", tmp_path / "odd", intermediate_size=47)
    with pytest.raises(EngineUnavailable, match=r"torch multiplies by layers\.0.experts, as the"):
        compile_model(config_of(tmp_path / "odd", dtype="bfloat16"), tmp_path / "x")
    with pytest.raises(EngineUnavailable, match="cannot be compiled: its kernels are torch"):
        compile_model(config_of(tmp_path / "odd", kernels="torch"), tmp_path / "x")
    engine.save_model("gpt2", tmp_path / "gpt2")
    with pytest.raises(EngineUnavailable, match="cannot be compiled: transformers computes it"):
        compile_model(config_of(tmp_path / "gpt2"), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_its_weights_are_no_checkpoint(compiled):
    from agentrt.engine.models.checkpoint import tensor_shapes

    with pytest.raises(AgentrtError, match="is compiled"):
        tensor_shapes(compiled)


def test_threads_that_came_with_it_are_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if cores() == 1:
        pytest.skip("one core measures nothing")
    known, used, size = ThreadChoice(1, "active", "a step took 1 ms"), [], 10_000_000

    def choose(choice):
        return choose_threads(
            *(config_of(tmp_path), "fast", size, ("passive",)),
            *(lambda threads, _: used.append(threads), lambda: used.append(0)),
            known=choice,
        )

    chosen = choose(known)
    assert (chosen.threads, chosen.wait, used) == (1, "active", [1])
    assert chosen.reason == "a step took 1 ms, when the model was compiled"
    for file in tmp_path.rglob("*.json"):
        file.unlink()
    choose(replace(known, threads=cores() + 1))  # of a machine with more cores
    assert 0 in used
