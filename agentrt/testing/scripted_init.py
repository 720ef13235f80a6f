"""An engine that answers from a script: programs are tested without a model and without waiting."""

from agentrt.testing.fake_backend import ScriptedBackend
from agentrt.testing.script import Reply, Script, calls_text
from agentrt.testing.seen import Seen

__all__ = ["Reply", "Script", "ScriptedBackend", "Seen", "calls_text"]
