"""The language: chats, nodes, tools and programs. It hands work to whatever runtime is active."""

from agentrt.program.ask import AskWork, ask
from agentrt.program.chat import Calls, Chat, Each, Gen, GenOptions, OnOverflow, Overflow, chat
from agentrt.program.default_runner import set_default_runner
from agentrt.program.emit import emit
from agentrt.program.fan import fan
from agentrt.program.gather import gather
from agentrt.program.generation import GenerateWork, GenMeta, Score
from agentrt.program.limits import limits
from agentrt.program.node import Node, NodeWork
from agentrt.program.output import OutputSpec
from agentrt.program.output_reading import Partial
from agentrt.program.output_types import Constraint, cfg, choice, json_schema, regex
from agentrt.program.ports import Submit, active
from agentrt.program.program import Program, ProgramWork, program
from agentrt.program.race import race
from agentrt.program.scope import Scope, in_scope
from agentrt.program.tool import Tool, ToolWork, tool
from agentrt.program.tool_call import Final, ToolCall
from agentrt.program.trimming import trim

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
    "NodeWork",
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
