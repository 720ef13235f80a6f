"""The graph that the code of a program implies: where it makes nodes, and where values go.

The code is read, not run. A place in the code stands for all nodes that it makes; both sides of a
branch are shown, and a loop once. What a name means is looked up in the module; calls of functions
elsewhere are not followed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Literal

from agentrt.base.record import record
from agentrt.program.code.code_walk import CodeSite, CodeWalk
from agentrt.program.code.source import function_source
from agentrt.program.program import Program

INPUT, RESULT = "input", "result"
Link = Literal["value", "starts", "decides"]


@record
class CodeLink:
    """A value of one site that another one uses.

    Attributes:
        source: Key of a site, or `INPUT`.
        target: Key of a site, or `RESULT`.
        how: A `value`, a plan that `starts` tools, or a value that `decides` on a branch.
    """

    source: str
    target: str
    how: Link


@dataclass(slots=True)
class CodeGraph:
    """Sites and links of one program.

    Attributes:
        name: The program.
        where: `file:line` of the program.
        parameters: Parameters of the program.
        result: Return type as written, or "".
        sites: Sites, in the order of the code.
        links: Links between them.
        not_followed: Awaited calls that may make nodes elsewhere, as `name at file:line`.
    """

    name: str
    where: str
    parameters: tuple[str, ...]
    result: str
    sites: list[CodeSite] = field(default_factory=list)
    links: list[CodeLink] = field(default_factory=list)
    not_followed: list[str] = field(default_factory=list)


def code_graph(program: Program[..., Any]) -> CodeGraph:
    """The graph of a program.

    Raises:
        UsageError: The source of the program cannot be read.
    """
    source = function_source(program.fn)
    arguments = source.tree.args
    parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    parameters += [one.arg for one in arguments.kwonlyargs]
    result = ast.unparse(source.tree.returns) if source.tree.returns else ""
    graph = CodeGraph(program.name, source.where(source.tree), tuple(parameters), result)
    walk = CodeWalk(source)
    walk.read(dict.fromkeys(parameters, frozenset({INPUT})), result=RESULT)
    graph.sites = list(walk.sites.values())
    graph.links = [CodeLink(*one) for one in _needed(walk)]
    graph.not_followed = list(walk.not_followed)
    return graph


def _needed(walk: CodeWalk) -> list[tuple[str, str, Link]]:
    """Links without those from the input to sites that also need the value of a site before."""
    order = {key: at for at, key in enumerate((*walk.sites, RESULT))}
    fed = {
        target
        for source, target, how in walk.links
        if source != INPUT and how != "decides" and order[source] < order[target]
    }
    return [one for one in walk.links if one[0] != INPUT or one[1] not in fed]
