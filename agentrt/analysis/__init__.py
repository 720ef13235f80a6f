"""The graph that a run turned out to be: its record, order, critical path, split and slack."""

from agentrt.analysis.causes import Causes, Input
from agentrt.analysis.cost_model import (
    Costs,
    HardwareCosts,
    Machine,
    ModelWork,
    Step,
    StepCosts,
    step_costs,
)
from agentrt.analysis.critical_path import PathStep, critical_path
from agentrt.analysis.latency_bound import Bound, bound
from agentrt.analysis.latency_split import Split, split
from agentrt.analysis.order import order
from agentrt.analysis.parallelism import parallelism, work_s
from agentrt.analysis.recorder import Recorder
from agentrt.analysis.replay import replay_s, saving_s
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.slack import slack_s
from agentrt.analysis.stages import LABELS, Label, Stage, stages

__all__ = [
    "LABELS",
    "Bound",
    "Causes",
    "Costs",
    "HardwareCosts",
    "Input",
    "Label",
    "Machine",
    "ModelWork",
    "NodeRecord",
    "PathStep",
    "Recorder",
    "RunRecord",
    "Split",
    "Stage",
    "Step",
    "StepCosts",
    "bound",
    "critical_path",
    "order",
    "parallelism",
    "replay_s",
    "saving_s",
    "slack_s",
    "split",
    "stages",
    "step_costs",
    "work_s",
]
