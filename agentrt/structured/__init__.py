"""Structured output (guided decoding): from a Python type to tokens that cannot violate it.

A type, schema, regex, choice or grammar becomes a `ConstraintSpec` (the language's side). A spec is
compiled to a `CompiledConstraint` for a vocabulary, and each sequence has its own `ConstraintState`
(the engine's side), which fills grammar bitmasks and finds forced tokens (jump-forward). The
scanners parse the output. No torch and no engine here.
"""

from typing import TYPE_CHECKING

from agentrt.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from agentrt.structured.call_text import CallScanner as CallScanner, CallText as CallText
    from agentrt.structured.calls import calls_spec as calls_spec, held_tools as held_tools
    from agentrt.structured.captures import (
        captured_shape as captured_shape,
        composed_shape as composed_shape,
    )
    from agentrt.structured.closing.budget import Budgeted as Budgeted
    from agentrt.structured.masks import MaskPool as MaskPool, fill_bitmasks as fill_bitmasks
    from agentrt.structured.matcher import (
        CompiledConstraint as CompiledConstraint,
        ConstraintState as ConstraintState,
        bitmask_words as bitmask_words,
    )
    from agentrt.structured.partial import NOTHING as NOTHING, PartialJson as PartialJson
    from agentrt.structured.parts import (
        Captured as Captured,
        Either as Either,
        Joined as Joined,
        Leaf as Leaf,
        Part as Part,
        literal_part as literal_part,
        repeated as repeated,
    )
    from agentrt.structured.rendering.json_rendering import JsonRendering as JsonRendering
    from agentrt.structured.rendering.output_place import (
        array_place as array_place,
        output_place as output_place,
    )
    from agentrt.structured.rendering.places import Place as Place
    from agentrt.structured.sandbox.cache import CompileCache as CompileCache
    from agentrt.structured.sandbox.compiled import compile_constraint as compile_constraint
    from agentrt.structured.tags import (
        TagScanner as TagScanner,
        TagShape as TagShape,
        TagText as TagText,
        tags_spec as tags_spec,
    )
    from agentrt.structured.types.checking import (
        checked_schema_shape as checked_schema_shape,
        checked_shape_of as checked_shape_of,
    )
    from agentrt.structured.types.items import ItemScanner as ItemScanner
    from agentrt.structured.types.shape import (
        Shape as Shape,
        array_shape as array_shape,
        cfg_shape as cfg_shape,
        choice_shape as choice_shape,
        in_style as in_style,
        json_schema_shape as json_schema_shape,
        json_shape_of as json_shape_of,
        regex_shape as regex_shape,
        shape_of as shape_of,
        written_out as written_out,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "call_text": "CallScanner CallText",
        "calls": "calls_spec held_tools",
        "captures": "captured_shape composed_shape",
        "closing.budget": "Budgeted",
        "masks": "MaskPool fill_bitmasks",
        "matcher": "CompiledConstraint ConstraintState bitmask_words",
        "partial": "NOTHING PartialJson",
        "parts": "Captured Either Joined Leaf Part literal_part repeated",
        "rendering.json_rendering": "JsonRendering",
        "rendering.output_place": "array_place output_place",
        "rendering.places": "Place",
        "sandbox.cache": "CompileCache",
        "sandbox.compiled": "compile_constraint",
        "tags": "TagScanner TagShape TagText tags_spec",
        "types.checking": "checked_schema_shape checked_shape_of",
        "types.items": "ItemScanner",
        "types.shape": "Shape array_shape cfg_shape choice_shape in_style json_schema_shape"
        " json_shape_of regex_shape shape_of written_out",
    },
)
