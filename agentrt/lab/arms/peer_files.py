"""Where the peers' environment and their copies of a model lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.errors import UsageError
from agentrt.lab.checkpoints.gguf import gguf_job
from agentrt.lab.errors import BenchFailed

_SCRIPTS = Path(__file__).parent / "peers"
_VERSION = 2  # of what is written into GGUF files
_HINT = "Run `make peers` in the repository, or name its folder in AGENTRT_PEERS"


@dataclass(frozen=True, slots=True)
class PeerFiles:
    """What peers run on.

    Attributes:
        root: What `make peers` built.
        checkpoint: The model's directory.
    """

    root: Path
    checkpoint: Path

    @property
    def python(self) -> Path:
        """The interpreter of the peers' environment."""
        return self.root / "venv" / "bin" / "python"

    @property
    def transformers_python(self) -> Path:
        """One that has transformers; our own does as well, where peers were not made."""
        return self.python if self.python.exists() else Path(sys.executable)

    @property
    def libraries(self) -> Path:
        """The folder of llama.cpp's shared libraries."""
        return self.root / "llama.cpp" / "bin"

    def script(self, name: str) -> Path:
        """A driver, to be run in the peers' environment."""
        return _SCRIPTS / name

    def check(self, peer: str) -> None:
        """That a peer was made; who needs no other environment is none.

        Args:
            peer: Of `agentrt bench`: an engine, a server or a client.

        Raises:
            UsageError: It was not.
        """
        wanted = {
            "llama.cpp": (self.python, self.libraries),
            "llama-server": (self.python, self.libraries / "llama-server"),
            "transformers": (self.python.with_name("transformers"),),
            "langgraph": (self.python,),
        }
        if not all(path.exists() for path in wanted.get(peer, ())):
            raise UsageError(f"there is no {peer} in {self.root}", hint=_HINT)

    def gguf(self, shape: ModelShape, dtype: str, folder: Path | None = None) -> Path:
        """The model as GGUF; written when it is not there.

        Args:
            shape: Of the checkpoint.
            dtype: Of the matrices in the file.
            folder: Where it lies; None puts it beside the checkpoint.

        Raises:
            BenchFailed: It cannot be written.
            UsageError: llama.cpp is not asked to compute in this dtype.
        """
        if dtype not in ("bfloat16", "float32"):
            raise UsageError(f"no GGUF is written in {dtype}", hint="Use bfloat16 or float32")
        target = (folder or self.checkpoint) / f"{dtype}-{_VERSION}.gguf"
        if target.exists():
            return target
        draft = target.with_suffix(".part")
        job = gguf_job(shape, self.checkpoint, draft, dtype)
        done = subprocess.run(
            [str(self.python), str(self.script("write_gguf.py"))],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise BenchFailed(f"no GGUF was written: {lines[-1] if lines else done.returncode}")
        draft.rename(target)
        return target


def peers_root() -> Path:
    """Where `make peers` puts things: AGENTRT_PEERS, else `.peers` here or beside the package."""
    named = os.environ.get("AGENTRT_PEERS")
    if named:
        return Path(named)
    here = Path.cwd() / ".peers"
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / ".peers"
