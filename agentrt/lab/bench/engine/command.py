"""`agentrt bench engine`: a sweep over random weights of a named shape."""

from __future__ import annotations

from typing import get_args

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.base.config import ActivationChoice, KvCacheDtype, WeightChoice
from agentrt.base.expert_memory import expert_memory
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.bench.engine.points import points_of
from agentrt.lab.bench.engine.result import PointResult, to_json
from agentrt.lab.bench.engine.sweep import measure
from agentrt.lab.bench.engine.table import show
from agentrt.lab.bench.engine.variants import PEERS
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.result_file import write_json


def check(flags: EngineFlags) -> None:
    """Check the flags before weights are written.

    Raises:
        UsageError: A flag is out of range.
    """
    check_known("--peer", flags.peers, PEERS)
    check_known("--dtype", names(flags.dtype), tuple(DTYPE_BYTES))
    check_known("--device", (flags.device,), ("cpu", "cuda"))
    kernels = ("auto", "torch", "cpu", "triton", "reference")
    check_known("--kernels", (flags.kernels,), kernels)
    check_known("--weights", (flags.weights,), get_args(WeightChoice))
    check_known("--activations", (flags.activations,), get_args(ActivationChoice))
    check_known("--kv-cache-dtype", (flags.kv_cache_dtype,), get_args(KvCacheDtype))
    expert_memory(flags.expert_memory, "--expert-memory {!r}")
    on_cpu = flags.device == "cpu" or not {"llama.cpp", "openvino"} & {*flags.peers}
    require(on_cpu, "llama.cpp and OpenVINO are built for the CPU only", "Use --peer hf")
    peer_files().check(*flags.peers)


def run_engine_bench(flags: EngineFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: The arms cannot be compared.
    """
    check(flags)
    shape = shape_named(flags.shape)
    results: list[PointResult] = []
    for result in measure(points_of(shape, flags), shape, flags):
        results.append(result)
        write_json(flags.json_path, to_json(shape, results))
    show(shape, results)
