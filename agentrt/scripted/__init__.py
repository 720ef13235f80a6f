"""An engine that answers from a script: programs are tested without a model and without waiting."""

from agentrt.scripted.backend import ScriptedBackend
from agentrt.scripted.script import Reply, Script, calls_text
from agentrt.scripted.seen import Seen

__all__ = ["Reply", "Script", "ScriptedBackend", "Seen", "calls_text"]
