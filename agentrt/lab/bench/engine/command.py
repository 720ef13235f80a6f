"""`agentrt bench engine`: a sweep over random weights of a named shape."""

from __future__ import annotations

from agentrt.analysis.model_shape import DTYPE_BYTES, ModelShape
from agentrt.lab.bench.engine.points import SweepPoint, points_of
from agentrt.lab.bench.engine.result import PointResult, to_json
from agentrt.lab.bench.engine.sweep import measure
from agentrt.lab.bench.engine.table import show
from agentrt.lab.bench.engine.variants import PEERS
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.flags import check_known, names, numbers, require
from agentrt.lab.result_file import write_json


def points_in(flags: EngineFlags, shape: ModelShape) -> list[SweepPoint]:
    """The points of the sweep.

    Raises:
        UsageError: A flag is out of range, or a point does not fit the shape.
    """
    dtypes = names(flags.dtype)
    check_known("--peer", flags.peers, PEERS)
    check_known("--dtype", dtypes, tuple(DTYPE_BYTES))
    check_known("--device", (flags.device,), ("cpu", "cuda"))
    kernels = ("auto", "torch", "cpu", "triton", "reference")
    check_known("--kernels", (flags.kernels,), kernels)
    require(flags.repeat >= 1, f"--repeat {flags.repeat} measures nothing", "Give 7 or more")
    built = flags.device == "cpu" or "llama.cpp" not in flags.peers
    require(built, "make peers builds llama.cpp for the CPU only", "Use --peer hf")
    return points_of(
        shape,
        batches=numbers(flags.batch, "--batch"),
        prompts=numbers(flags.prompt, "--prompt"),
        new_tokens=flags.new,
        shared=numbers(flags.shared, "--shared"),
        dtypes=dtypes,
    )


def run_engine_bench(flags: EngineFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: The arms cannot be compared.
    """
    shape = shape_named(flags.shape)
    results: list[PointResult] = []
    for result in measure(points_in(flags, shape), shape, flags):
        results.append(result)
        write_json(flags.json_path, to_json(shape, results))
    show(shape, results)
