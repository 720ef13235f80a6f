"""The language: chats, nodes, tools and programs. It hands work to whatever runtime is active."""

from agentrt.program.ask import ask
from agentrt.program.chat import Chat, chat
from agentrt.program.default_runner import set_default_runner
from agentrt.program.each import Calls, Each, Final, ToolCall
from agentrt.program.emit import emit
from agentrt.program.fan import fan
from agentrt.program.gather import gather
from agentrt.program.gen import Gen, GenMeta, Partial, Score
from agentrt.program.limits import limits
from agentrt.program.node import Node
from agentrt.program.node_specs import (
    AskWork,
    GenerateWork,
    OutputSpec,
    ProgramWork,
    ToolWork,
    Work,
)
from agentrt.program.options import GenOptions
from agentrt.program.output_types import Constraint, cfg, choice, json_schema, regex
from agentrt.program.overflow import OnOverflow, Overflow, trim
from agentrt.program.ports import Submit
from agentrt.program.program import Program, program
from agentrt.program.race import race
from agentrt.program.scope import Scope, active, in_scope
from agentrt.program.tool import Tool, tool

__all__ = [
    "AskWork",
    "Calls",
    "Chat",
    "Constraint",
    "Each",
    "Final",
    "Gen",
    "GenMeta",
    "GenOptions",
    "GenerateWork",
    "Node",
    "OnOverflow",
    "OutputSpec",
    "Overflow",
    "Partial",
    "Program",
    "ProgramWork",
    "Scope",
    "Score",
    "Submit",
    "Tool",
    "ToolCall",
    "ToolWork",
    "Work",
    "active",
    "ask",
    "cfg",
    "chat",
    "choice",
    "emit",
    "fan",
    "gather",
    "in_scope",
    "json_schema",
    "limits",
    "program",
    "race",
    "regex",
    "set_default_runner",
    "tool",
    "trim",
]
