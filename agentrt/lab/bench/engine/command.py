"""What `agentrt bench engine` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.analysis.model_shape import DTYPE_BYTES, ModelShape
from agentrt.base.errors import UsageError
from agentrt.lab.bench.engine.points import rows_of
from agentrt.lab.bench.engine.result import RowResult, to_json
from agentrt.lab.bench.engine.sweep import SweepConfig, measure
from agentrt.lab.bench.engine.table import show
from agentrt.lab.bench.engine.variants import PEERS
from agentrt.lab.checkpoints.shapes import shape_named

_WORTH_SAVING_BYTES = 6 << 30


@dataclass(frozen=True, slots=True)
class EngineBench:
    """A sweep as asked for.

    Attributes:
        shape: Name of the model's shape.
        batches: Sequences at once.
        prompts: Own prompt tokens.
        new_tokens: Produced by each sequence.
        shared: Tokens of a common prefix.
        dtypes: To compute in.
        threads: Of our arm; 0 lets the engine choose.
        device: Where.
        kernels: Set of our arm.
        peers: Beside ours.
        repeats: Rounds that count.
        constrained: Whether our arm also runs with its outputs held to a type.
    """

    shape: str
    batches: Sequence[int]
    prompts: Sequence[int]
    new_tokens: int
    shared: Sequence[int]
    dtypes: Sequence[str]
    threads: int
    device: str
    kernels: str
    peers: tuple[str, ...]
    repeats: int
    constrained: bool = False


def run_engine_bench(
    asked: EngineBench,
    *,
    command: Sequence[str],
    tell: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """Measure and print the table.

    Args:
        asked: What.
        command: As it was typed.
        tell: Called with how far it is.
        keep: Called with the file's content after each row, so that what was measured stays when a
            later row fails.

    Raises:
        UsageError: Something was asked for that there is not.
        BenchFailed: The arms cannot be compared.
    """
    shape = shape_named(asked.shape)
    config = checked(asked, shape)
    rows = rows_of(
        shape,
        batches=asked.batches,
        prompts=asked.prompts,
        new_tokens=asked.new_tokens,
        shared=asked.shared,
        dtypes=asked.dtypes,
    )
    results: list[RowResult] = []
    for result in measure(rows, config, tell):
        results.append(result)
        keep(to_json(shape, results, command))
    show(shape, results)


def checked(asked: EngineBench, shape: ModelShape) -> SweepConfig:
    """How to measure, if all that was asked for is there.

    Raises:
        UsageError: It is not.
    """
    _known("--peer", asked.peers, PEERS)
    _known("--dtype", asked.dtypes, tuple(DTYPE_BYTES))
    _known("--device", (asked.device,), ("cpu", "cuda"))
    _known("--kernels", (asked.kernels,), ("auto", "torch", "cpu", "triton", "reference"))
    if asked.repeats < 1:
        raise UsageError(f"--repeat {asked.repeats} measures nothing", hint="Give 7 or more")
    if asked.device == "cuda" and "llama.cpp" in asked.peers:
        raise UsageError("make peers builds llama.cpp for the CPU only", hint="Use --peer hf")
    large = 2 * shape.parameters > _WORTH_SAVING_BYTES
    return SweepConfig(
        shape=shape,
        peers=tuple(dict.fromkeys(asked.peers)),
        repeats=asked.repeats,
        device=asked.device,
        engine={"threads": asked.threads, "kernels": asked.kernels},
        weights="random" if large and not asked.peers else "saved",
        constrained=asked.constrained,
    )


def _known(flag: str, given: Sequence[str], names: Sequence[str]) -> None:
    for one in given:
        if one not in names:
            raise UsageError(f"{flag} {one} is not known", hint=f"Use one of {', '.join(names)}")
