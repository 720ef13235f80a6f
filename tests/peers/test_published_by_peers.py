"""Checkpoints that the packages of others write are computed as those packages read them."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agentrt import UsageError, embedded
from agentrt.engine.models.checkpoint import tensors
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.lab.arms.peer_files import peer_files
from tests.engine.published_models import logits_of

pytestmark = pytest.mark.peers

WRITE = """
import json, shutil, sys
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file

def written(job, pack, config):
    source, target, reference = (Path(job[name]) for name in ("source", "target", "reference"))
    stored, plain = {}, {}
    for name, weight in load_file(source / "model.safetensors").items():
        weight = weight.float()
        stored[name] = plain[name] = weight
        if name.endswith("proj.weight"):
            del stored[name]
            parts, plain[name] = pack(weight)
            module = name.removesuffix("weight")
            stored |= {module + part: one.contiguous() for part, one in parts.items()}
    for folder, tensors in ((target, stored), (reference, plain)):
        shutil.copytree(source, folder)
        tensors = {name: one.contiguous() for name, one in tensors.items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    whole = json.loads((source / "config.json").read_text())
    whole["quantization_config"] = json.loads(json.dumps(config))
    (target / "config.json").write_text(json.dumps(whole))

job = json.load(sys.stdin)
"""
COMPRESSED = """
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import (
    QuantizationArgs, QuantizationConfig, QuantizationScheme, QuantizationStatus
)
from compressed_tensors.quantization.utils import calculate_qparams

args = QuantizationArgs(**job["weights"])
rows = QuantizationArgs(**job["rows"]) if job["rows"] else None
scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=rows)
how = BaseCompressor.get_value_from_registry(job["format"])

def pack(weight):
    if args.strategy == "group":
        cut = weight.unflatten(1, (-1, args.group_size))
        least, most = cut.amin(-1), cut.amax(-1)
    elif args.strategy == "block":
        high, wide = args.block_structure
        cut = weight.unflatten(1, (-1, wide)).unflatten(0, (-1, high))
        least, most = cut.amin((1, 3)), cut.amax((1, 3))
    elif args.strategy == "channel":
        least, most = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    else:
        least, most = weight.min().reshape(1), weight.max().reshape(1)
    scale, zero = calculate_qparams(least, most, args)
    parts = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    made = how.compress(parts, scheme)
    return made, how.decompress(dict(made), scheme)["weight"].float()

config = QuantizationConfig(
    config_groups={"group_0": scheme},
    format=job["format"],
    quantization_status=QuantizationStatus.COMPRESSED,
    ignore=["lm_head"],
)
written(job, pack, config.model_dump(mode="json"))
"""
GPTQ = """
from types import SimpleNamespace
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

def pack(weight):
    rows, inputs = weight.shape
    own = dict(job["down"] if inputs == job["inner"] else {})
    bits, group = own.get("bits", job["bits"]), own.get("group_size", job["group"])
    cut = weight.unflatten(1, (-1, group))
    least, most = cut.amin(-1).clamp(max=0), cut.amax(-1).clamp(min=0)
    if job["sym"]:
        scales = torch.maximum(-least, most) * 2 / (2**bits - 1)
        zeros = torch.full_like(scales, 2 ** (bits - 1))
    else:
        scales = (most - least) / (2**bits - 1)
        zeros = (-least / scales).round()
    groups = torch.arange(inputs) // group
    if job["desc_act"]:
        groups = groups[torch.randperm(inputs, generator=torch.Generator().manual_seed(inputs))]
    scales = scales.half().float()
    plain = torch.nn.Linear(inputs, rows, bias=False)
    plain.weight.data = weight
    made = TorchLinear(
        bits=bits, group_size=group, sym=job["sym"], desc_act=job["desc_act"],
        in_features=inputs, out_features=rows, bias=False, register_buffers=True,
    )
    made.pack_original(plain, scales, zeros, groups.to(torch.int32))
    made.post_init()
    with torch.no_grad():
        read = made.dequantize_weight().t().float()
    if job["version"] == 1:
        own = SimpleNamespace(bits=bits, pack_dtype=torch.int32)
        convert_gptq_v2_to_v1_format_module(made, own)
    parts = {part: getattr(made, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
    return parts, read

written(job, pack, {
    "bits": job["bits"], "group_size": job["group"], "desc_act": job["desc_act"], "sym": job["sym"],
    "quant_method": "gptq", "checkpoint_format": "gptq" if job["version"] == 1 else "gptq_v2",
    "pack_dtype": "int32", "lm_head": False, "meta": {"quantizer": ["gptqmodel:7.7.0"]},
    "dynamic": {"+:.*down_proj": job["down"]} if job["down"] else None,
})
"""
AWQ = """
from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear
from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
from transformers import AwqConfig

group = job["group"]

def pack(weight):
    rows, inputs = weight.shape
    cut = weight.unflatten(1, (-1, group))
    least, most = cut.amin(-1).clamp(max=0), cut.amax(-1).clamp(min=0)
    scales = ((most - least) / 15).half().float()
    zeros = (-least / scales).round().clamp(0, 15)
    plain = torch.nn.Linear(inputs, rows, bias=False)
    plain.weight.data = weight
    made = AwqTorchLinear(
        bits=4, group_size=group, sym=False, desc_act=False, in_features=inputs,
        out_features=rows, bias=False, register_buffers=True,
    )
    with torch.no_grad():
        made.pack(plain, scales, zeros)
        read = dequantize_gemm(made.qweight, made.qzeros, made.scales, 4, group).t().float()
    return {part: getattr(made, part) for part in ("qweight", "qzeros", "scales")}, read

written(job, pack, AwqConfig(bits=4, group_size=group).to_dict())
"""
BITSANDBYTES = """
import bitsandbytes.functional as bnb
from transformers import BitsAndBytesConfig

def pack(weight):
    if job["kind"] == "int8":
        codes, largest, _ = bnb.int8_vectorwise_quant(weight)
        read = bnb.int8_vectorwise_dequant(codes, largest).float()
        return {"weight": codes, "SCB": largest}, read
    codes, state = bnb.quantize_4bit(
        weight, blocksize=64, quant_type=job["kind"], compress_statistics=job["nested"]
    )
    parts = {f"weight.{part}": one for part, one in state.as_dict(packed=True).items()}
    return {"weight": codes, **parts}, bnb.dequantize_4bit(codes, state).float()

four = job["kind"] != "int8"
config = BitsAndBytesConfig(
    load_in_4bit=four, load_in_8bit=not four, bnb_4bit_quant_type=job["kind"] if four else "fp4",
    bnb_4bit_use_double_quant=job["nested"],
)
written(job, pack, config.to_dict())
"""
FP8 = """
from types import SimpleNamespace
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Quantize, _dequantize_fp8_weight

config = FineGrainedFP8Config(scale_fmt=job["scale_fmt"], weight_block_size=(64, 128))
how = Fp8Quantize(SimpleNamespace(quantization_config=config))

def pack(weight):
    made = how.convert({"x.weight": weight})
    made = {name.removeprefix("x."): one for name, one in made.items()}
    scales = made["weight_scale_inv"].float()
    return made, _dequantize_fp8_weight(made["weight"], scales, [64, 128], torch.float32)

settings = config.to_dict()
settings["weight_block_size"] = list(settings["weight_block_size"])
written(job, pack, settings)
"""


@dataclass(frozen=True)
class Case:
    """What one package writes."""

    script: str
    job: dict[str, Any]


def compressed(form: str, rows: dict[str, Any] | None = None, **weights: Any) -> Case:
    return Case(COMPRESSED, {"format": form, "rows": rows, "weights": weights})


def gptq(
    bits: int,
    *,
    version: int = 1,
    sym: bool = True,
    desc_act: bool = False,
    down: dict[str, Any] | None = None,
) -> Case:
    settings = {"version": version, "sym": sym, "desc_act": desc_act, "down": down or {}}
    return Case(GPTQ, {"bits": bits, "group": 32, "inner": 384, **settings})


ROWS = {"num_bits": 8, "strategy": "token", "dynamic": True}
FLOATS = {"num_bits": 8, "type": "float"}
CASES = {
    "int4 in groups": compressed("pack-quantized", num_bits=4, strategy="group", group_size=32),
    "int4 with zeros": compressed(
        "pack-quantized", num_bits=4, strategy="group", group_size=64, symmetric=False
    ),
    "int4 in rows": compressed("pack-quantized", num_bits=4, strategy="channel"),
    "int8 in words": compressed("pack-quantized", num_bits=8, strategy="channel"),
    "int8 in rows": compressed("int-quantized", ROWS, num_bits=8, strategy="channel"),
    "fp8 in rows": compressed("float-quantized", ROWS | FLOATS, strategy="channel", **FLOATS),
    "fp8 as one": compressed("float-quantized", ROWS | FLOATS, strategy="tensor", **FLOATS),
    "fp8 in blocks": compressed(
        "float-quantized", None, strategy="block", block_structure=[64, 128], **FLOATS
    ),
    "gptq int4": gptq(4),
    "gptq int4 with zeros": gptq(4, sym=False),
    "gptq int4 reordered": gptq(4, sym=False, desc_act=True),
    "gptq int4 of version 2": gptq(4, version=2, sym=False),
    "gptq by modules": gptq(4, sym=False, down={"bits": 8, "group_size": 128}),
    "gptq int8": gptq(8, sym=False, desc_act=True),
    "awq": Case(AWQ, {"group": 32}),
    "nf4": Case(BITSANDBYTES, {"kind": "nf4", "nested": False}),
    "nf4 nested": Case(BITSANDBYTES, {"kind": "nf4", "nested": True}),
    "fp4": Case(BITSANDBYTES, {"kind": "fp4", "nested": True}),
    "bitsandbytes int8": Case(BITSANDBYTES, {"kind": "int8", "nested": False}),
    "fp8 of transformers": Case(FP8, {"scale_fmt": "float"}),
    "fp8 by powers of two": Case(FP8, {"scale_fmt": "ue8m0"}),
}


def run(command: Sequence[str], given: str) -> str | None:
    """What is wrong, if the command fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def python() -> str:
    found = peer_files(embedded.path())
    try:
        found.check("quantisers")
    except UsageError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    return str(found.quantisers_python)


@pytest.mark.parametrize("name", CASES)
def test_what_a_package_writes_is_computed_as_it_reads_it(name: str, python: str, tmp_path: Path):
    case = CASES[name]
    target, reference = tmp_path / "target", tmp_path / "reference"
    places = {"source": embedded.path(), "target": target, "reference": reference}
    job = case.job | {part: str(path) for part, path in places.items()}
    assert run([python, "-c", WRITE + case.script], json.dumps(job)) is None
    expected = load_file(reference / "model.safetensors")
    for weight, own in tensors(target, torch.float32, torch.device("cpu")):
        if isinstance(own, PackedWeight):
            values, exact = own.dequantize(), expected[weight]
            assert (values - exact).norm() <= 1e-3 * exact.norm(), weight
    logits, model = logits_of(target)
    exact, _ = logits_of(reference)
    assert (logits - exact).norm() <= 1e-2 * exact.norm()
    assert model.network.quantised_bytes > 0
