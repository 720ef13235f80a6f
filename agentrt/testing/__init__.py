"""Support for testing agent programs: an engine with scripted answers, and virtual time."""

from agentrt.testing.clock import LoopClock
from agentrt.testing.fake_backend import ScriptedBackend
from agentrt.testing.loop import Stuck, VirtualTimeLoop, run_virtual
from agentrt.testing.script import Reply, Script, calls_text
from agentrt.testing.seen import SeenByBackend
from agentrt.testing.tiny_model import tiny_engine

__all__ = [
    "LoopClock",
    "Reply",
    "Script",
    "ScriptedBackend",
    "SeenByBackend",
    "Stuck",
    "VirtualTimeLoop",
    "calls_text",
    "run_virtual",
    "tiny_engine",
]
