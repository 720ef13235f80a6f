"""Arms that compute batches of token ids: our engine and those of peers.

Such an arm answers `round` with the times of one batch and the ids of each output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.engine.process.child import environment
from agentrt.lab.arms.arm_process import OURS, Arm
from agentrt.lab.arms.peer_files import PeerFiles


def our_engine_arm(model: Path, **fields: Any) -> Arm:
    """Our engine as the product runs it.

    Args:
        model: Checkpoint directory.
        fields: Further fields of `EngineConfig`.
    """
    config = EngineConfig(model_path=model, **fields)
    return Arm(
        OURS,
        f"{config.threads}t" if config.threads else "",
        command=(sys.executable, "-P", "-m", "agentrt.lab.arms.engine_arm"),
        settings={"model_path": str(model), **fields},
        env=environment(config, os.environ),
    )


def llama_cpp_arm(files: PeerFiles, variant: str, **settings: Any) -> Arm:
    """llama.cpp through its own C interface.

    Args:
        files: Files of the peers.
        variant: Difference from other arms.
        settings: `model`, a GGUF file; `threads`; `dtype`; `batch`, sequences at once;
            `context_tokens` of its cache; `unified`, True for one cache for all sequences.
    """
    return Arm(
        "llama.cpp",
        variant,
        command=(str(files.python), str(files.script("llama_cpp_arm.py"))),
        settings=settings,
        env={"LLAMA_CPP_LIB_PATH": str(files.libraries)},
    )


def transformers_arm(
    files: PeerFiles, variant: str, env: Mapping[str, str], **settings: Any
) -> Arm:
    """transformers: a static batch, or its continuous batching.

    Args:
        files: Files of the peers, with the checkpoint.
        variant: Difference from other arms.
        env: Variables added to its environment.
        settings: `threads`; `dtype`; `device`; `kv_tokens`, memory of continuous batching, or 0.
    """
    return Arm(
        "hf-cb" if settings["kv_tokens"] else "hf",
        variant,
        command=(str(files.transformers_python), str(files.script("hf_arm.py"))),
        settings={"model": str(files.checkpoint), **settings},
        env=env,
    )


def vllm_arm(files: PeerFiles, variant: str, env: Mapping[str, str], **settings: Any) -> Arm:
    """VLLM's engine without its server.

    Args:
        files: Files of the peers.
        variant: Difference from other arms.
        env: Variables added to its environment.
        settings: Arguments of `vllm.LLM`.
    """
    command = (str(files.vllm_program.with_name("python")), str(files.script("vllm_arm.py")))
    return Arm("vllm", variant, command=command, settings=settings, env=env)


def openvino_arm(files: PeerFiles, variant: str, **settings: Any) -> Arm:
    """OpenVINO GenAI's continuous batching.

    Args:
        files: Files of the peers.
        variant: Difference from other arms.
        settings: `model`, a GGUF file in float16 or a folder; `dtype`; `threads`; `kv_tokens`;
            `prompts_alone`.
    """
    command = (str(files.openvino_python), str(files.script("openvino_arm.py")))
    return Arm("openvino", variant, command=command, settings=settings)
