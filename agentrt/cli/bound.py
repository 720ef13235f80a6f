"""`agentrt run --bound`: what this machine and this engine would have allowed at best."""

from __future__ import annotations

from dataclasses import replace

from agentrt.analysis import (
    HardwareCosts,
    MachineRates,
    RunRecord,
    Step,
    bound,
    bound_line,
    model_work,
    shape_of_config,
    step_costs,
)
from agentrt.analysis.cost_model import ModelWork
from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSettings
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.gguf.gguf_file import open_gguf

_EMBEDDING = "token_embd.weight"


class BoundLimits:
    """Costs of an embedded engine's model on this machine, measured when it is made.

    Args:
        engine: Config of the engine, which has ended: what it did would be measured along.

    Raises:
        UsageError: The work of such a model is unknown, or it ran on another device.
    """

    def __init__(self, engine: EngineSettings) -> None:
        if isinstance(engine, RemoteEngineConfig) or engine.device != "cpu":
            raise UsageError(
                "--bound measures this machine's processor",
                hint="leave it out for engines with an address and for --device cuda",
            )
        from agentrt.engine.models.load_plan import dtype_name
        from agentrt.engine.process.roofline import measured_roofline

        work = embedded_work(engine)
        limit = measured_roofline("cpu", dtype_name(engine))
        self._machine = MachineRates(limit.read_bytes_s, limit.flops_s)
        self._hardware = HardwareCosts(self._machine, work)

    def lines(self, record: RunRecord) -> list[str]:
        """One line by the machine, and one by the engine's own steps if there were enough."""
        reads, does = self._machine.read_bytes_s / 1e9, self._machine.flops_s / 1e9
        by = f"by the machine (reads {reads:.0f} GB/s, multiplies {does:.0f} GFLOP/s)"
        found = [bound_line(bound(record, self._hardware), by)]
        steps = step_costs(
            [
                Step(step.ended_at_s - step.started_at_s, step.prefill_tokens, step.decode_tokens)
                for step in record.steps
            ]
        )
        if steps is not None:
            found.append(bound_line(bound(record, steps), "by the engine's own steps"))
        return found


def embedded_work(engine: EngineConfig) -> ModelWork:
    """Work of an embedded engine's model, with the bytes of weights and KV as it reads them.

    Raises:
        ModelInvalid: There is no such model.
        UsageError: The work of such a model is unknown.
    """
    from agentrt.engine.models.checkpoint import read_config, stored_quantised
    from agentrt.engine.models.load_plan import dtype_name

    path = engine.model_path
    shape = shape_of_config(read_config(path, weights=False), path)
    work = model_work(shape, dtype_name(engine), engine.weights, engine.kv_cache_dtype)
    if not is_gguf(path) or not stored_quantised(path):
        return work
    tensors = open_gguf(path).tensors
    left = {_EMBEDDING} if "output.weight" in tensors else set()  # a step reads a row of it
    matrices = (one for name, one in tensors.items() if len(one.shape) > 1 and name not in left)
    return replace(work, weight_bytes=float(sum(one.size for one in matrices)))
