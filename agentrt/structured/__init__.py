"""Structured output (guided decoding): from a Python type to tokens that cannot violate it.

A type, schema, regex, choice or grammar becomes a `ConstraintSpec` (the language's side). A spec is
compiled to a `CompiledConstraint` for a vocabulary, and each sequence has its own `ConstraintState`
(the engine's side), which fills grammar bitmasks and finds forced tokens (jump-forward). The
scanners parse the output. No torch and no engine here.
"""

from agentrt.structured.call_text import CallScanner, CallText
from agentrt.structured.calls import calls_spec, held_tools
from agentrt.structured.captures import captured_shape, composed_shape
from agentrt.structured.closing.budget import Budgeted
from agentrt.structured.masks import MaskPool, fill_bitmasks
from agentrt.structured.matcher import CompiledConstraint, ConstraintState, bitmask_words
from agentrt.structured.partial import NOTHING, PartialJson
from agentrt.structured.parts import (
    Captured,
    Either,
    Joined,
    Leaf,
    Part,
    literal_part,
    repeated,
)
from agentrt.structured.rendering.json_rendering import JsonRendering
from agentrt.structured.rendering.output_place import array_place, output_place
from agentrt.structured.rendering.places import Place
from agentrt.structured.sandbox.cache import CompileCache
from agentrt.structured.sandbox.compiled import compile_constraint
from agentrt.structured.tags import TagScanner, TagShape, TagText, tags_spec
from agentrt.structured.types.checking import checked_schema_shape, checked_shape_of
from agentrt.structured.types.items import ItemScanner
from agentrt.structured.types.shape import (
    Shape,
    array_shape,
    cfg_shape,
    choice_shape,
    in_style,
    json_schema_shape,
    json_shape_of,
    regex_shape,
    shape_of,
    written_out,
)

__all__ = [
    "NOTHING",
    "Budgeted",
    "CallScanner",
    "CallText",
    "Captured",
    "CompileCache",
    "CompiledConstraint",
    "ConstraintState",
    "Either",
    "ItemScanner",
    "Joined",
    "JsonRendering",
    "Leaf",
    "MaskPool",
    "Part",
    "PartialJson",
    "Place",
    "Shape",
    "TagScanner",
    "TagShape",
    "TagText",
    "array_place",
    "array_shape",
    "bitmask_words",
    "calls_spec",
    "captured_shape",
    "cfg_shape",
    "checked_schema_shape",
    "checked_shape_of",
    "choice_shape",
    "compile_constraint",
    "composed_shape",
    "fill_bitmasks",
    "held_tools",
    "in_style",
    "json_schema_shape",
    "json_shape_of",
    "literal_part",
    "output_place",
    "regex_shape",
    "repeated",
    "shape_of",
    "tags_spec",
    "written_out",
]
