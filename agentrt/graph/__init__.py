"""The graph that a run turned out to be: its record, order, critical path, split and slack."""

from agentrt.graph.bound import Bound, bound
from agentrt.graph.causes import Causes, Input
from agentrt.graph.costs import (
    Costs,
    HardwareCosts,
    Machine,
    ModelWork,
    Step,
    StepCosts,
    step_costs,
)
from agentrt.graph.order import order
from agentrt.graph.parallelism import parallelism, work_s
from agentrt.graph.path import PathStep, critical_path
from agentrt.graph.record import NodeRecord, RunRecord
from agentrt.graph.recorder import Recorder
from agentrt.graph.replay import replay_s, saving_s
from agentrt.graph.slack import slack_s
from agentrt.graph.split import Split, split
from agentrt.graph.stages import LABELS, Label, Stage, stages

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
