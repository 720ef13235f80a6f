"""Plans for OpenVINO GenAI, which has no server: ours in front of its continuous batching."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentrt.analysis.model_shape import shape_in
from agentrt.lab.arms.arm_process import Arm
from agentrt.lab.arms.engine_arms import openvino_arm
from agentrt.lab.arms.llama_server import gguf_folder
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanChange, PlanSearch
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan

WEIGHTS = "float16"
"""Matrices of the file: of those that are not quantised it reads no others."""
_ALONE = "--prompts-alone"
_CHANGES = (
    (PlanChange("prompts alone", (_ALONE,)),),
    (PlanChange("lookup drafts", ("--lookup-tokens", "4"), drafts=True),),
    (PlanChange("forms", form_body={"structured_outputs": {"regex": "{pattern}"}}),),
)


def openvino_search(served: Served, files: PeerFiles, threads: Sequence[int]) -> PlanSearch:
    """Continuous batching with prefix caching; it computes in the dtype of all arms.

    Args:
        served: Model and memory.
        files: Files of the peers.
        threads: Numbers of threads that may be the best.
    """
    command = (
        *(str(files.openvino_python), str(files.script("openvino_server.py"))),
        *("--model", str(served.model), "--gguf", str(_gguf(served, files)), "--name", served.name),
        *("--port", "{port}", "--dtype", served.dtype, "--kv-tokens", str(served.kv_tokens)),
    )
    plans = [
        ServerPlan(
            kind="openvino",
            variant=f"{count}t",
            command=(*command, "--threads", str(count)),
            model=served.name,
            body={"ignore_eos": True},
            about={"threads": count, "version": files.version_of("openvino", "openvino_genai")},
            counters={"steps": "openvino_steps"},
        )
        for count in threads
    ]
    return PlanSearch(tuple(plans), _CHANGES)


def openvino_engine(plan: ServerPlan, served: Served, files: PeerFiles) -> Arm:
    """The pipeline of a plan's server without the server."""
    return openvino_arm(
        files,
        plan.variant,
        model=str(_gguf(served, files)),
        dtype=served.dtype,
        threads=plan.about["threads"],
        kv_tokens=served.kv_tokens,
        prompts_alone=_ALONE in plan.command,
    )


def _gguf(served: Served, files: PeerFiles) -> Path:
    return files.gguf(shape_in(served.model), WEIGHTS, gguf_folder(served))
