"""The libraries that are measured, each in a process that is opened again when it fell over."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.lab.arms.arm_process import ArmChild
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.errors import BenchFailed

OURS = "agentrt"
PEERS = ("xgrammar", "outlines-core")
_OPEN_S = 300.0


class LibraryArm:
    """A library over one vocabulary.

    Args:
        name: `agentrt` or a peer.
        vocabulary: File of the vocabulary.
        files: Of the peers.
        patience_s: For an answer about one case; longer counts as a failure of the library.

    Attributes:
        about: What its process says of itself.
    """

    def __init__(self, name: str, vocabulary: Path, files: PeerFiles, *, patience_s: float) -> None:
        self.name = name
        self._settings = {"vocabulary": str(vocabulary), "library": name}
        self._command: tuple[str, ...]
        if name == OURS:
            self._command = (sys.executable, "-P", "-m", "agentrt.lab.arms.structured_arm")
        else:
            self._command = (str(files.python), str(files.script("structured_arm.py")), name)
        self._patience_s = patience_s
        self.about = self._open()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, or `{"failed": why}` where the process took too long or fell over."""
        try:
            told = self._child.ask(question, patience_s=self._patience_s)
        except BenchFailed as failed:
            self._child.close(at_once=True)
            self._open()
            return {"failed": failed.message}
        return {"failed": told["error"]} if told.get("error") else told

    def close(self) -> None:
        """End its process."""
        self._child.close(at_once=True)

    def _open(self) -> dict[str, Any]:
        self._child = ArmChild(self.name, self._command, {**os.environ, "OMP_NUM_THREADS": "1"})
        told = self._child.ask({"do": "open", "settings": self._settings}, patience_s=_OPEN_S)
        if told.get("error"):
            self._child.close(at_once=True)
            raise BenchFailed(f"{self.name} cannot be opened: {told['error']}", hint="make peers")
        return told


def check_peers(peers: tuple[str, ...], files: PeerFiles) -> None:
    """That peers are known and were made.

    Raises:
        UsageError: They are not.
    """
    for peer in peers:
        if peer not in PEERS:
            raise UsageError(f"--peer {peer} is not known", hint=f"Use one of {', '.join(PEERS)}")
    if peers and not files.python.exists():
        raise UsageError(
            f"there are no peers in {files.root}",
            hint="Run `make peers` in the repository, or name its folder in AGENTRT_PEERS",
        )
