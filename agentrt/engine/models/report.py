"""What a model runs on here, and why, without reading its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.base.config import EngineConfig
from agentrt.base.errors import AgentrtError
from agentrt.engine.models.load_plan import LoadPlan, plan_load
from agentrt.engine.models.native.model_config import Declined


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Plain facts, for people and for JSON.

    Attributes:
        architecture: As the checkpoint says.
        path: "fast" where the engine computes the decoder itself, "slow" where transformers does,
            "unsupported" where it cannot be loaded.
        path_reason: Why.
        kernels: What attention, norms and rotations run on.
        kernels_reason: Why.
        linear: How matrices are kept: "packed", "plain", or as transformers keeps them.
        linear_reason: Why.
        dtype: What it computes in.
        device: Where.
        self_check: What is known of its numbers against transformers'.
    """

    architecture: str
    path: Literal["fast", "slow", "unsupported"]
    path_reason: str
    kernels: str = ""
    kernels_reason: str = ""
    linear: str = ""
    linear_reason: str = ""
    dtype: str = ""
    device: str = ""
    self_check: str = ""

    @property
    def computed_by(self) -> str:
        """What the time of a step depends on, beside the model and the machine."""
        return f"{self.path} {self.kernels} {self.linear} {self.dtype}"

    def __str__(self) -> str:
        told = [f"{self.architecture} on the {self.path} path ({self.path_reason})"]
        told.append(f"kernels {self.kernels} ({self.kernels_reason})")
        told.append(f"{self.linear} weights in {self.dtype} on {self.device}")
        return ", ".join(told)


def report_of(plan: LoadPlan) -> ModelReport:
    """Of a model that is about to be loaded."""
    declined = isinstance(plan.shape, Declined)
    return ModelReport(
        architecture=str(plan.facts.get("model_type")),
        path="slow" if declined else "fast",
        path_reason=plan.shape.reason
        if isinstance(plan.shape, Declined)
        else "its config and its weights are plainly of a known shape",
        kernels=plan.kernels.kernels.name,
        kernels_reason=plan.kernels.reason,
        linear="transformers'" if declined else plan.door.choice,
        linear_reason="" if declined else plan.door.reason,
        dtype=str(plan.dtype).removeprefix("torch."),
        device=plan.device.type,
        self_check=f"{plan.verdict.state}: {plan.verdict.reason}",
    )


def model_report(config: EngineConfig) -> ModelReport:
    """Of the checkpoint in `config.model_path`; what is refused is told, not raised."""
    try:
        return report_of(plan_load(config))
    except AgentrtError as error:
        return ModelReport("unknown", "unsupported", error.message)
