"""The analysis of a finished run: its record, critical path, latency split and reports."""

from agentrt.analysis.causes import Causes, Input
from agentrt.analysis.cost_model import (
    ForwardCosts,
    HardwareCosts,
    MachineRates,
    Step,
    StepCosts,
    step_costs,
)
from agentrt.analysis.critical_path import PathStep, critical_path
from agentrt.analysis.error_text import error_lines
from agentrt.analysis.latency_bound import bound, bound_line
from agentrt.analysis.latency_line import latency_line, trace_line
from agentrt.analysis.latency_split import Split, split
from agentrt.analysis.model_shape import ModelShape, shape_in, shape_of_config
from agentrt.analysis.model_work import model_work
from agentrt.analysis.parallelism import parallelism, work_s
from agentrt.analysis.recorder import RunRecorder
from agentrt.analysis.replay import replay_s, saving_s
from agentrt.analysis.run_record import NodeRecord, RunRecord
from agentrt.analysis.slack import slack_s
from agentrt.analysis.stage import LABELS
from agentrt.analysis.stages import stages
from agentrt.analysis.summary import summary
from agentrt.analysis.usage import Usage, usage

__all__ = [
    "LABELS",
    "Causes",
    "ForwardCosts",
    "HardwareCosts",
    "Input",
    "MachineRates",
    "ModelShape",
    "NodeRecord",
    "PathStep",
    "RunRecord",
    "RunRecorder",
    "Split",
    "Step",
    "StepCosts",
    "Usage",
    "bound",
    "bound_line",
    "critical_path",
    "error_lines",
    "latency_line",
    "model_work",
    "parallelism",
    "replay_s",
    "saving_s",
    "shape_in",
    "shape_of_config",
    "slack_s",
    "split",
    "stages",
    "step_costs",
    "summary",
    "trace_line",
    "usage",
    "work_s",
]
