"""`agentrt bench drafts`: time a token with drafts of adaptive length, by that without."""

from __future__ import annotations

from agentrt.analysis.model_shape import DTYPE_BYTES
from agentrt.lab.bench.drafts.measure import measure
from agentrt.lab.bench.drafts.points import EMBEDDED, points_of
from agentrt.lab.bench.drafts.result import PointPairs, to_json
from agentrt.lab.bench.drafts.table import show
from agentrt.lab.bench.flags import DraftsFlags
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.result_file import write_json


def check(flags: DraftsFlags) -> None:
    """Check the flags before weights are written.

    Raises:
        UsageError: A flag is out of range.
    """
    check_known("--device", (flags.device,), ("cpu", "cuda"))
    kernels = ("auto", "torch", "cpu", "triton", "reference")
    check_known("--kernels", (flags.kernels,), kernels)
    if flags.dtype:
        check_known("--dtype", (flags.dtype,), tuple(DTYPE_BYTES))
    if flags.draft_model is not None:
        found = (flags.draft_model / "config.json").is_file()
        require(found, f"{flags.draft_model} is no model directory", "Give a checkpoint directory")
    if EMBEDDED in names(flags.shape):
        file = flags.programs / "finance.py"
        require(file.exists(), f"there is no {file}", "Give --programs the folder with finance.py")


def run_drafts_bench(flags: DraftsFlags) -> None:
    """Measure and print the table; the file is written anew after each point.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: An arm failed, or drafts changed an output.
    """
    check(flags)
    results: list[PointPairs] = []
    for result in measure(points_of(flags), flags):
        results.append(result)
        write_json(flags.json_path, to_json(results, "auto"))
    show(results)
