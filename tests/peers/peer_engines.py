"""Engines of other makers, and ours as a process, each serving the embedded model as users would.

All are started by the commands of their documentation, with the least memory and without a pool of
threads each, since they run on the machine of the tests.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrt import RemoteEngineConfig, embedded
from agentrt.lab.arms.llama_server import gguf_of
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.arms.vllm_server import vllm_env

NAME = "little"
"""Name of the model at all of them but transformers, which takes its path."""
KEY = "sk-of-the-proxy"
"""Key of LiteLLM's proxy; clients read it in PEER_KEY."""
_AT = ("--host", "127.0.0.1", "--port", "{port}")
_FORMS = '{"backend": "guidance", "disable_any_whitespace": true}'
_THREADS = {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True)
class PeerEngine:
    """One engine as the tests start it.

    Attributes:
        kind: Kind in the settings of the client.
        plan: Its process, given the files of the peers, a folder and the engine behind it.
        needs: What has to be built for it, as `PeerFiles.check` names it; "" for nothing.
        behind: Engine that it passes requests on to; "" if it computes itself.
    """

    kind: str
    plan: Callable[[PeerFiles, Path, str], ServerPlan]
    needs: str = ""
    behind: str = ""


def _ours(files: PeerFiles, folder: Path, upstream: str) -> ServerPlan:
    command = (sys.executable, "-P", "-m", "agentrt", "serve", "--name", NAME, "--port", "{port}")
    return ServerPlan("agentrt", "", command, NAME, {}, env=_THREADS)


def _vllm(files: PeerFiles, folder: Path, upstream: str) -> ServerPlan:
    command = (
        *(str(files.vllm_program), "serve", str(embedded.path()), "--served-model-name", NAME),
        *(*_AT, "--dtype", "bfloat16", "--max-model-len", "4096", "--max-num-seqs", "16"),
        *("--kv-cache-memory-bytes", str(64 << 20), "--enforce-eager"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *("--structured-outputs-config", _FORMS),
    )
    return ServerPlan("vllm", "", command, NAME, {}, env=vllm_env(2))


def _llama_server(files: PeerFiles, folder: Path, upstream: str) -> ServerPlan:
    served = Served(embedded.path(), "bfloat16")
    command = (
        *(str(files.libraries / "llama-server"), "--model", str(gguf_of(served, files))),
        *("--alias", NAME, *_AT, "--jinja", "--parallel", "8", "--kv-unified"),
        *("--ctx-size", "16384", "--threads", "2"),
    )
    return ServerPlan("llama-server", "", command, NAME, {})


def _transformers(files: PeerFiles, folder: Path, upstream: str) -> ServerPlan:
    model = str(embedded.path())
    command = (
        *(str(files.transformers_program), "serve", model, *_AT, "--log-level", "error"),
        *("--device", "cpu", "--dtype", "bfloat16"),
    )
    return ServerPlan("transformers", "", command, model, {}, env=_THREADS)


def _litellm(files: PeerFiles, folder: Path, upstream: str) -> ServerPlan:
    behind = {"model": f"hosted_vllm/{NAME}", "api_base": upstream, "api_key": "none"}
    config = {
        "model_list": [{"model_name": NAME, "litellm_params": behind}],
        "general_settings": {"master_key": KEY},  # it refuses to start without one
    }
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(config), "utf-8")  # YAML has JSON in it
    command = (str(files.litellm_program), "--config", str(file), *_AT)
    headers = {"Authorization": f"Bearer {KEY}"}
    health = "/health/liveliness"
    return ServerPlan("litellm", "", command, NAME, {}, headers=headers, health=health)


PEERS = {
    "agentrt serve": PeerEngine("agentrt", _ours),
    "llama-server": PeerEngine("llama-server", _llama_server, "llama-server"),
    "vllm": PeerEngine("vllm", _vllm, "vllm"),
    "transformers serve": PeerEngine("transformers", _transformers, "transformers"),
    "litellm, agentrt serve": PeerEngine("litellm", _litellm, "litellm", "agentrt serve"),
    "litellm, llama-server": PeerEngine("litellm", _litellm, "litellm", "llama-server"),
}


@contextmanager
def served(name: str, files: PeerFiles, folder: Path) -> Iterator[RemoteEngineConfig]:
    """An engine that serves, as the settings of a client; it ends with the block.

    Raises:
        UsageError: It was not built.
        BenchFailed: It does not start.
    """
    peer = PEERS[name]
    if peer.needs:
        files.check(peer.needs)
    with ExitStack() as stack:
        upstream = ""
        if peer.behind:
            upstream = stack.enter_context(served(peer.behind, files, folder)).url
        yield stack.enter_context(_running(peer, files, folder, upstream))


@contextmanager
def _running(
    peer: PeerEngine, files: PeerFiles, folder: Path, upstream: str
) -> Iterator[RemoteEngineConfig]:
    plan = peer.plan(files, folder, upstream)
    process = ServerProcess(plan)
    try:
        key = "env:PEER_KEY" if plan.headers else None
        yield RemoteEngineConfig(kind=peer.kind, address=process.url, model=plan.model, key=key)
    finally:
        process.close()
