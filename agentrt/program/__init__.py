"""The language: chats, nodes, tools and programs. It hands work to whatever runtime is active."""

from agentrt.program.ask import AskWork as AskWork, ask as ask
from agentrt.program.captures import capture as capture, typed as typed
from agentrt.program.chat import (
    Calls as Calls,
    Chat as Chat,
    Each as Each,
    Gen as Gen,
    GenOptions as GenOptions,
    OnOverflow as OnOverflow,
    Overflow as Overflow,
    TaggedText as TaggedText,
)
from agentrt.program.constraints import (
    Constraint as Constraint,
    cfg as cfg,
    choice as choice,
    json_schema as json_schema,
    regex as regex,
)
from agentrt.program.default_runner import set_default_runner as set_default_runner
from agentrt.program.emit import emit as emit
from agentrt.program.fan import fan as fan
from agentrt.program.gather import gather as gather
from agentrt.program.generation import (
    GenerateWork as GenerateWork,
    GenMeta as GenMeta,
    Score as Score,
)
from agentrt.program.limits import limits as limits
from agentrt.program.new_chat import chat as chat
from agentrt.program.node import Node as Node, NodeWork as NodeWork
from agentrt.program.output import OutputSpec as OutputSpec
from agentrt.program.output_reading import Partial as Partial
from agentrt.program.ports import Submit as Submit, active as active
from agentrt.program.program import (
    Program as Program,
    ProgramWork as ProgramWork,
    program as program,
)
from agentrt.program.race import race as race
from agentrt.program.scope import Scope as Scope, in_scope as in_scope
from agentrt.program.tags import Tagged as Tagged, Tags as Tags, tag as tag
from agentrt.program.tool import Tool as Tool, ToolWork as ToolWork, tool as tool
from agentrt.program.tool_call import Final as Final, ToolCall as ToolCall
from agentrt.program.trimming import trim as trim
from agentrt.program.yielding import YieldingNode as YieldingNode
