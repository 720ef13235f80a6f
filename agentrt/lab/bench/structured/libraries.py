"""The measured libraries, each in a process that is opened again after it failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agentrt.lab.arms.arm_process import OURS, Arm, ArmProcess
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.errors import BenchFailed

PEERS = ("xgrammar", "outlines-core")


class LibraryArm:
    """A library over one vocabulary.

    Args:
        name: `agentrt` or a peer.
        vocabulary: File of the vocabulary.
        patience_s: Longest time of one case; more counts as a failure of the library.

    Attributes:
        about: Description that its process gave.
    """

    def __init__(self, name: str, vocabulary: Path, *, patience_s: float) -> None:
        self.name, files = name, peer_files()
        command: tuple[str, ...] = (str(files.python), str(files.script("structured_arm.py")))
        if name == OURS:
            command = (sys.executable, "-P", "-m", "agentrt.lab.arms.structured_arm")
        settings = {"vocabulary": str(vocabulary), "library": name}
        self._arm = Arm(name, "", command, settings, env={"OMP_NUM_THREADS": "1"})
        self._patience_s = patience_s
        self._process = self._opened()
        self.about = self._process.about

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer, or `{"failed": why}` if the process took too long, failed or ended."""
        try:
            return self._process.ask(do, **arguments)
        except BenchFailed as failed:
            if not self._process.is_running:
                self.close()
                self._process = self._opened()
            return {"failed": failed.message}

    def close(self) -> None:
        """End its process."""
        self._process.close(patience_s=0)

    def _opened(self) -> ArmProcess:
        return ArmProcess(self._arm, patience_s=self._patience_s)
