"""A line on the draft model or the head of an engine, without reading its weights."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.config import EngineConfig
from agentrt.base.eagle3 import is_eagle3
from agentrt.base.errors import AgentrtError
from agentrt.engine.models.checkpoint import read_config
from agentrt.engine.models.eagle3.head_config import head_config
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.report import model_report


def draft_report(config: EngineConfig) -> str:
    """The draft model or the head of an engine; a refusal is told, not raised; "" without one."""
    path = config.draft_model
    if path is None:
        return ""
    try:
        if not is_eagle3(path):
            report = model_report(replace(config, model_path=path, draft_model=None))
            return f"a model of its own: {report.architecture} on the {report.path} path"
        target = plan_load(config).shape
        if not isinstance(target, DecoderShape):
            return "an EAGLE-3 head, of a model that shows it no states"
        head = head_config(path, read_config(path, weights=True), target)
    except AgentrtError as error:
        return f"cannot be used: {error.message}"
    layers = ", ".join(map(str, head.capture_layers))
    return (
        f"an EAGLE-3 head on the states before layers {layers} of {target.layers}, "
        f"drafts {head.shape.vocabulary:,} of {head.vocabulary:,} tokens"
    )
