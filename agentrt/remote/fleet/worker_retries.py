"""Attempts at one worker of a fleet: a fault ends the attempt there, and another worker follows."""

from __future__ import annotations

from typing import Literal

from agentrt.remote.retries import Retries

WorkerFault = Literal["failure", "loss", "busy"]
"""`failure`: the worker answered with an error. `loss`: it was not there, or broke off. `busy`: it
had no room."""


class WorkerRetries(Retries):
    """The attempt of a request at one worker; notes why it failed, and lets none follow there.

    Attributes:
        fault: Why the attempt failed; None as long as nothing did.
    """

    fault: WorkerFault | None = None

    def note_failure(self) -> bool:
        self.fault = "failure"
        return False

    def note_loss(self) -> bool:
        self.fault = "loss"
        return False

    def note_away(self) -> bool:
        self.fault = "loss"
        return False

    def note_silence(self) -> bool:
        self.fault = "loss"
        return False

    def note_busy(self, answered_at_s: float) -> bool:
        self.fault = "busy"
        return False
