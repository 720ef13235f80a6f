"""Plans for llama.cpp's server, at the dtype of all arms and with quantised weights."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from agentrt.analysis.model_shape import shape_in
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanChange, PlanSearch
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.checkpoints.checkpoint import bench_folder

_COUNTERS = {
    "prompt_tokens": "llamacpp:prompt_tokens_total",
    "steps": "llamacpp:n_decode_total",
}
_F32_CACHE = ("--cache-type-k", "f32", "--cache-type-v", "f32")
_CHANGES = (
    tuple(PlanChange(f"-ub {tokens}", ("--ubatch-size", str(tokens))) for tokens in (128, 2048)),
    (PlanChange("no flash attention", ("--flash-attn", "off")),),
    (PlanChange("idle slots kept", ("--no-cache-idle-slots",)),),
    (PlanChange("cache reuse", ("--cache-reuse", "32")),),
    (
        PlanChange("default drafts", ("--spec-default",), drafts=True),
        PlanChange("n-gram drafts", ("--spec-type", "ngram-simple"), drafts=True),
    ),
    (PlanChange("grammar", form_body={"grammar": "{gbnf}"}),),
)
"""Settings tried one after the other. Chunks of at least 32 tokens are reused: fewer are computed
as quickly as they are moved. A grammar only has to be read; it spares llama.cpp no step."""


def llama_search(
    served: Served, files: PeerFiles, threads: Sequence[int], weights: str = ""
) -> PlanSearch:
    """One cache for all slots admits longer requests; a cache for each slot is read faster.

    The longest request has to fit into a slot, so a small memory leaves the first alone.

    Args:
        served: Model and memory.
        files: Files of the peers.
        threads: Numbers of threads that may be the best.
        weights: Quantised weights, some of `QUANTISED`; "" for the dtype.
    """
    program = files.libraries / "llama-server"
    common = (
        *(str(program), "--model", str(gguf_of(served, files, weights)), "--alias", served.name),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--parallel", str(served.slots), "--cont-batching", "--cache-prompt", "--jinja"),
        "--metrics",
        *("--ctx-size", str(served.kv_tokens)),
        *(_F32_CACHE if served.dtype == "float32" else ()),
    )
    biases = [[token, False] for token in served.no_text()]
    longest = served.longest_tokens or shape_in(served.model).window_tokens
    caches = [("one cache", "--kv-unified")]
    if served.kv_tokens // served.slots >= longest:
        caches.append(("split cache", "--no-kv-unified"))
    plans = [
        ServerPlan(
            kind=f"llama-server-{weights}" if weights else "llama-server",
            variant=f"{count}t {name}",
            command=(*common, flag, "--threads", str(count)),
            model=served.name,
            body={"temperature": 0, "ignore_eos": True, "cache_prompt": True, "logit_bias": biases},
            about={"threads": count, "version": _version(program)},
            counters=_COUNTERS,
        )
        for count in threads
        for name, flag in caches
    ]
    return PlanSearch(tuple(plans), _CHANGES)


def weights_of_kind(kind: str) -> str:
    """Quantised weights of a llama-server of that kind; "" if they have the dtype of all arms."""
    return kind.removeprefix("llama-server").removeprefix("-")


def gguf_of(served: Served, files: PeerFiles, weights: str = "") -> Path:
    """The file that llama.cpp loads; written at its first use.

    Args:
        served: Model and dtype.
        files: Files of the peers.
        weights: Quantised weights, some of `QUANTISED`; "" for the dtype.
    """
    return files.gguf(shape_in(served.model), weights or served.dtype, gguf_folder(served))


def gguf_folder(served: Served) -> Path:
    """Where a model's GGUF files lie: with the bench's checkpoints, or named by the weights."""
    model = served.model
    if model.resolve().is_relative_to(bench_folder().resolve()):
        return model
    digest = sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]
    folder = bench_folder() / "gguf" / f"{served.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = (line.strip() for line in (done.stdout + done.stderr).splitlines())
    return next((line for line in lines if line.startswith("version")), "unknown")
