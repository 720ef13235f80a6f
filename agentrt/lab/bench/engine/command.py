"""`agentrt bench engine`: a sweep over random weights of a named shape."""

from __future__ import annotations

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.lab.bench.engine.points import SweepPoint, points_of
from agentrt.lab.bench.engine.result import PointResult, to_json
from agentrt.lab.bench.engine.sweep import SweepConfig, measure
from agentrt.lab.bench.engine.table import show
from agentrt.lab.bench.engine.variants import PEERS
from agentrt.lab.bench.flags import EngineFlags
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.flags import check_known, numbers, require
from agentrt.lab.result_file import write_json

_QUICK_REPEATS = 2
_WORTH_SAVING_BYTES = 6 << 30


def points_in(flags: EngineFlags) -> list[SweepPoint]:
    """The points of the sweep.

    Raises:
        UsageError: A point does not fit the shape.
    """
    return points_of(
        shape_named(flags.shape),
        batches=numbers(flags.batch, "--batch"),
        prompts=numbers(flags.prompt, "--prompt"),
        new_tokens=flags.new,
        shared=numbers(flags.shared, "--shared"),
        dtypes=flags.dtype.split(","),
    )


def config_of(flags: EngineFlags) -> SweepConfig:
    """How to measure.

    Raises:
        UsageError: A flag is out of range.
    """
    shape, peers = shape_named(flags.shape), tuple(dict.fromkeys(flags.peer or ()))
    check_known("--peer", peers, PEERS)
    check_known("--dtype", tuple(flags.dtype.split(",")), tuple(DTYPE_BYTES))
    check_known("--device", (flags.device,), ("cpu", "cuda"))
    kernels = ("auto", "torch", "cpu", "triton", "reference")
    check_known("--kernels", (flags.kernels,), kernels)
    require(flags.repeat >= 1, f"--repeat {flags.repeat} measures nothing", "Give 7 or more")
    built = flags.device == "cpu" or "llama.cpp" not in peers
    require(built, "make peers builds llama.cpp for the CPU only", "Use --peer hf")
    return SweepConfig(
        shape=shape,
        peers=peers,
        repeats=_QUICK_REPEATS if flags.quick else flags.repeat,
        device=flags.device,
        engine={"threads": flags.threads, "kernels": flags.kernels},
        saved_weights=bool(peers) or 2 * shape.parameters <= _WORTH_SAVING_BYTES,
        constrained=flags.constrained,
    )


def run_engine_bench(flags: EngineFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: The arms cannot be compared.
    """
    config = config_of(flags)
    results: list[PointResult] = []
    for result in measure(points_in(flags), config):
        results.append(result)
        write_json(flags.json_path, to_json(config.shape, results))
    show(config.shape, results)
