"""What tests of agent programs need: virtual time and a clock on it."""

from agentrt.testing.clock import LoopClock
from agentrt.testing.loop import Stuck, VirtualTimeLoop, run_virtual
from agentrt.testing.tiny_model import tiny_engine

__all__ = ["LoopClock", "Stuck", "VirtualTimeLoop", "run_virtual", "tiny_engine"]
