"""The peers' environment and their copies of a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.checkpoints.gguf import GGUF_DTYPES, gguf_job
from agentrt.lab.errors import BenchFailed

_SCRIPTS = Path(__file__).parent / "peers"
QUANTISED = ("q8_0", "q4_k_m")
"""Weights of fewer bits that llama.cpp is measured with beside the dtype of all arms."""
_WRITTEN = (*QUANTISED, "q4_0")
_VERSION = 3  # of the GGUF files' content
_TARGETS = {
    name: f"peers-{name}" for name in ("vllm", "openvino", "litellm", "phoenix", "quantisers")
}


@record
class PeerFiles:
    """Files that peers run on.

    Attributes:
        root: Folder that `make peers` built.
        checkpoint: Directory of the model.
    """

    root: Path
    checkpoint: Path

    @property
    def python(self) -> Path:
        """Interpreter of the peers' environment."""
        return self.root / "venv" / "bin" / "python"

    @property
    def transformers_python(self) -> Path:
        """An interpreter with transformers: ours has it as well, if peers were not built."""
        return self.python if self.python.exists() else Path(sys.executable)

    @property
    def transformers_program(self) -> Path:
        """The command line program of transformers."""
        return self.python.with_name("transformers")

    @property
    def libraries(self) -> Path:
        """Folder of llama.cpp's shared libraries and programs."""
        return self.root / "llama.cpp" / "bin"

    @property
    def vllm_program(self) -> Path:
        """The command line program of vLLM, in an environment of its own."""
        return self.root / "vllm" / "bin" / "vllm"

    @property
    def litellm_program(self) -> Path:
        """The command line program of LiteLLM's proxy, in an environment of its own."""
        return self.root / "litellm" / "bin" / "litellm"

    @property
    def phoenix_program(self) -> Path:
        """The command line program of Arize Phoenix, in an environment of its own."""
        return self.root / "phoenix" / "bin" / "phoenix"

    @property
    def openvino_python(self) -> Path:
        """Interpreter of OpenVINO's own environment."""
        return self.root / "openvino" / "bin" / "python"

    @property
    def quantisers_python(self) -> Path:
        """Interpreter of the environment with packages that quantise checkpoints."""
        return self.root / "quantisers" / "bin" / "python"

    def version_of(self, environment: str, package: str) -> str:
        """Version of a package as an environment of the peers has it.

        Args:
            environment: Folder of the environment.
            package: Name of the package as its folder is spelled.
        """
        folders = (self.root / environment).glob(f"lib/*/site-packages/{package}-*.dist-info")
        return next(
            (one.name.removesuffix(".dist-info").split("-")[1] for one in folders), "unknown"
        )

    def script(self, name: str) -> Path:
        """A script to be run in the peers' environment."""
        return _SCRIPTS / name

    def check(self, *peers: str) -> None:
        """Check that peers were built; one that needs no other environment always is.

        Args:
            peers: Engines, servers, clients or libraries.

        Raises:
            UsageError: One was not built.
        """
        needed = {
            "llama.cpp": (self.python, self.libraries),
            **dict.fromkeys(
                ("llama-server", *(f"llama-server-{weights}" for weights in QUANTISED)),
                (self.python, self.libraries / "llama-server"),
            ),
            "transformers": (self.transformers_program,),
            "vllm": (self.vllm_program, self.root / "vllm" / ".installed"),
            "openvino": (self.openvino_python, self.root / "openvino" / ".installed"),
            "quantisers": (self.quantisers_python, self.root / "quantisers" / ".installed"),
            "litellm": (self.litellm_program, self.root / "litellm" / ".installed"),
            "phoenix": (self.phoenix_program, self.root / "phoenix" / ".installed"),
            "langgraph": (self.python,),
            "xgrammar": (self.python,),
            "outlines-core": (self.python,),
        }
        for peer in peers:
            if not all(path.exists() for path in needed.get(peer, ())):
                raise UsageError(
                    f"there is no {peer} in {self.root}",
                    hint=f"Run `make {_TARGETS.get(peer, 'peers')}` in the repository, or name its "
                    "folder in AGENTRT_PEERS",
                )

    def gguf(self, shape: ModelShape, dtype: str, folder: Path | None = None) -> Path:
        """The model as a GGUF file; written if it is not there.

        Args:
            shape: Shape of the checkpoint.
            dtype: Dtype of the matrices in the file, or `q8_0`, `q4_0` or `q4_k_m`, which llama.cpp
                makes from bfloat16. OpenVINO reads `float16`.
            folder: Folder of the file; None puts it beside the checkpoint.

        Raises:
            BenchFailed: The file cannot be written.
            UsageError: The bench does not measure llama.cpp in this dtype.
        """
        if dtype not in (*GGUF_DTYPES, *_WRITTEN):
            raise UsageError(
                f"no GGUF is written in {dtype}", hint=f"Use one of {', '.join(GGUF_DTYPES)}"
            )
        target = (folder or self.checkpoint) / f"{dtype}-{_VERSION}.gguf"
        if target.exists():
            return target
        draft = target.with_suffix(".part")
        if dtype in _WRITTEN:
            source = self.gguf(shape, "bfloat16", folder)
            job = {"source": str(source), "target": str(draft), "weights": dtype}
            self._write(target, "quantize_gguf.py", job)
        else:
            job = gguf_job(shape, self.checkpoint, draft, dtype)
            self._write(target, "write_gguf.py", job)
        return target

    def openvino_folder(self, shape: ModelShape, weights: str) -> Path:
        """The model in OpenVINO's form with compressed weights; written if it is not there.

        Args:
            shape: Shape of the checkpoint.
            weights: `int8`, a scale for each output, or `int4`, a scale for each 128 inputs.

        Raises:
            BenchFailed: The folder cannot be written.
        """
        target = self.checkpoint / f"openvino-{weights}-{_VERSION}"
        if not target.exists():
            source = self.gguf(shape, "float16")
            draft = target.with_suffix(".part")
            shutil.rmtree(draft, ignore_errors=True)
            job = {"source": str(source), "target": str(draft), "weights": weights}
            self._write(target, "compress_openvino.py", job, self.openvino_python)
        return target

    def _write(
        self, target: Path, script: str, job: Mapping[str, Any], python: Path | None = None
    ) -> None:
        """Let a script of the peers do a job; what it writes gets its name once it is whole."""
        done = subprocess.run(
            [str(python or self.python), str(self.script(script))],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LLAMA_CPP_LIB_PATH": str(self.libraries)},
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            why = lines[-1] if lines else done.returncode
            raise BenchFailed(f"{target.name} was not written: {why}")
        target.with_suffix(".part").rename(target)


def peer_files(checkpoint: Path = Path()) -> PeerFiles:
    """Files of this machine's peers: in AGENTRT_PEERS, else `.peers` here or beside the package."""
    if named := os.environ.get("AGENTRT_PEERS"):
        return PeerFiles(Path(named), checkpoint)
    here = Path.cwd() / ".peers"
    root = here if here.is_dir() else Path(__file__).resolve().parents[3] / ".peers"
    return PeerFiles(root, checkpoint)
