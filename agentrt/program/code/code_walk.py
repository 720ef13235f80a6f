"""A walk over the code of a function, which follows values from the nodes that give them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from agentrt.base.record import record
from agentrt.program.code.calls import CalledFunction, Making, called
from agentrt.program.code.source import Function, FunctionSource

Keys = frozenset[str]
"""Sites whose values a value was made of."""
Names = dict[str, Keys]
_NOTHING: Keys = frozenset()
MOST_DEPTH = 6
"""Functions of the module inside one another that are followed."""
Loop = ast.For | ast.AsyncFor | ast.While


@record
class CodeSite:
    """A place in the code that makes nodes.

    Attributes:
        key: Key in the graph.
        kind: Kind of its nodes.
        name: Name of its nodes.
        detail: Type of an output, the tools that a plan may call, or "".
        where: `file:line`.
        is_many: Whether it lies in a loop.
        is_maybe: Whether it lies in a branch, or a model decides.
    """

    key: str
    kind: Literal["generate", "tool", "program", "ask"]
    name: str
    detail: str
    where: str
    is_many: bool
    is_maybe: bool


class CodeWalk:
    """Reads one function, and those of its module that it calls.

    Args:
        source: The function.

    Attributes:
        sites: Sites by key, in the order of the code.
        links: Source, target and kind of each link.
        not_followed: Awaited calls that may make nodes elsewhere.
        calls: Call of each site, and the function in which it stands.
    """

    def __init__(self, source: FunctionSource) -> None:
        self._source = source
        self.sites: dict[str, CodeSite] = {}
        self.links: dict[tuple[str, str, Literal["value", "starts", "decides"]], None] = {}
        self.not_followed: dict[str, None] = {}
        self.calls: dict[str, tuple[ast.Call, FunctionSource]] = {}
        self._tools_of: dict[str, str] = {}  # a plan -> the calls that it may lead to
        self._called_from: list[str] = []
        self._deciding: list[Keys] = []
        self._loops = 0
        self._branches = 0
        self._returned: list[Keys] = [_NOTHING]
        self._inner: dict[str, Function] = {}

    def read(self, names: Names, *, result: str) -> None:
        """Read the function with these values of its parameters; its value goes to `result`."""
        self._block(self._source.tree.body, names)
        for key in sorted(self._returned[0]):
            self.links[key, result, "value"] = None

    # Statements

    def _block(self, body: Iterable[ast.stmt], names: Names) -> None:
        for statement in body:
            self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: Names) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._inner[node.name] = node
            case ast.ClassDef():
                names[node.name] = self._all(ast.iter_child_nodes(node), names)
            case ast.Assign(targets=targets, value=value):
                given = self._keys(value, names)
                for target in targets:
                    self._bind(target, given, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._keys(value, names), names)
            case ast.AugAssign(target=target, value=value):
                self._bind(target, self._keys(value, names) | self._keys(target, names), names)
            case ast.Expr(value=value):
                self._expression(value, names)
            case ast.Return(value=ast.expr() as value):
                self._returned[-1] |= self._keys(value, names)
            case ast.If(test=test, body=body, orelse=orelse):
                self._branch(self._keys(test, names), [body, orelse], names)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node, names)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    given = self._keys(item.context_expr, names)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, given, names)
                self._block(body, names)
            case ast.Try() | ast.TryStar():
                self._block(node.body, names)
                self._branch(_NOTHING, [one.body for one in node.handlers], names)
                self._block([*node.orelse, *node.finalbody], names)
            case ast.Match(subject=subject, cases=cases):
                self._match(self._keys(subject, names), cases, names)
            case _:
                self._all(ast.iter_child_nodes(node), names)

    def _expression(self, value: ast.expr, names: Names) -> None:
        """A statement of one call may change the object whose method it is: `found.append(x)`."""
        given = self._keys(value, names)
        call = value.value if isinstance(value, ast.Await) else value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            owner = call.func.value
            if isinstance(owner, ast.Name) and owner.id in names:
                names[owner.id] |= given

    def _branch(self, deciding: Keys, bodies: list[list[ast.stmt]], names: Names) -> None:
        before = dict(names)
        for body in bodies:
            inside = dict(before)
            with self._decided(deciding):
                self._block(body, inside)
            _join(names, inside)

    def _loop(self, node: Loop, names: Names) -> None:
        """Read the body twice: the second time with the values that the first one left."""
        test = node.test if isinstance(node, ast.While) else node.iter
        self._loops += 1
        for _ in range(2):
            given = self._keys(test, names)
            if not isinstance(node, ast.While):
                self._bind(node.target, given, names)
            inside = dict(names)
            deciding = given if isinstance(node, ast.While) else _NOTHING
            with self._decided(deciding, is_maybe=False):
                self._block(node.body, inside)
            _join(names, inside)
        self._loops -= 1
        self._block(node.orelse, names)

    def _match(self, subject: Keys, cases: list[ast.match_case], names: Names) -> None:
        before = dict(names)
        for case in cases:
            inside = dict(before)
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    inside[name] = subject
            with self._decided(subject):
                self._block(case.body, inside)
            _join(names, inside)

    @contextmanager
    def _decided(self, by: Keys, *, is_maybe: bool = True) -> Iterator[None]:
        self._deciding.append(by)
        self._branches += is_maybe
        yield
        self._branches -= is_maybe
        self._deciding.pop()

    def _bind(self, target: ast.expr, given: Keys, names: Names) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = given
            case ast.Starred(value=value):
                self._bind(value, given, names)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._bind(part, given, names)
            case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)):
                names[name] = names.get(name, _NOTHING) | given

    # Expressions

    def _all(self, nodes: Iterable[ast.AST], names: Names) -> Keys:
        found = _NOTHING
        for node in nodes:
            if isinstance(node, ast.expr):
                found |= self._keys(node, names)
            elif isinstance(node, ast.stmt):
                self._statement(node, names)
            else:
                found |= self._all(ast.iter_child_nodes(node), names)
        return found

    def _keys(self, node: ast.expr, names: Names) -> Keys:
        match node:
            case ast.Name(id=name):
                return names.get(name, _NOTHING)
            case ast.Call():
                return self._call(node, names)
            case ast.NamedExpr(target=target, value=value):
                given = self._keys(value, names)
                self._bind(target, given, names)
                return given
            case ast.IfExp(test=test, body=body, orelse=orelse):
                deciding = self._keys(test, names)
                with self._decided(deciding):
                    return self._all((body, orelse), names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, names)
            case ast.Lambda(body=body):
                return self._keys(body, dict(names))
        return self._all(ast.iter_child_nodes(node), names)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, names: Names
    ) -> Keys:
        inside = dict(names)
        found = _NOTHING
        for one in node.generators:
            given = self._keys(one.iter, inside)
            found |= given
            self._bind(one.target, given, inside)
            self._loops += 1
            found |= self._all(one.ifs, inside)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        made = self._all(parts, inside)
        self._loops -= len(node.generators)
        return found | made

    def _call(self, call: ast.Call, names: Names) -> Keys:
        match call.func:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._one_of((body, orelse), test, call, names)
            case ast.Subscript(value=ast.Dict(values=values), slice=picked):
                return self._one_of(values, picked, call, names)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        owned = self._keys(call.func if owner is None else owner, names)
        given = self._all((*call.args, *call.keywords), names)
        found = called(call, self._source)
        if isinstance(found, Making):
            many = self._loops + found.is_many
            return self._site(call, found, owned | given, is_many=bool(many))
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("start", "run"):
            return frozenset(self._tools_of.get(key, key) for key in owned)
        if isinstance(call.func, ast.Name) and call.func.id in self._inner:
            inner = self._inner[call.func.id]
            return self._follow(call, CalledFunction(inner, self._source), names)
        if isinstance(found, CalledFunction):
            return self._follow(call, found, names)
        if isinstance(found, str):
            self.not_followed[f"{found} at {self._source.where(call)}"] = None
        return owned | given

    def _one_of(
        self, functions: Sequence[ast.expr], picked: ast.expr, call: ast.Call, names: Names
    ) -> Keys:
        """A call of one of several functions, as a value decides."""
        found = _NOTHING
        with self._decided(self._keys(picked, names)):
            for function in functions:
                one = ast.Call(function, call.args, call.keywords)
                found |= self._call(ast.copy_location(one, function), names)
        return found

    def _site(self, call: ast.Call, making: Making, needed: Keys, *, is_many: bool) -> Keys:
        key = "/".join([*self._called_from, f"{call.lineno}:{call.col_offset}:{call.end_lineno}"])
        key = f"{key}:{call.end_col_offset}"
        where = self._source.where(call)
        maybe = self._branches > 0
        self.calls[key] = call, self._source
        self.sites[key] = CodeSite(
            key, making.kind, making.name, making.detail, where, is_many, maybe
        )
        for one in sorted(needed - {key}):
            self.links[one, key, "value"] = None
        for one in sorted(frozenset().union(*self._deciding) - needed - {key}):
            self.links[one, key, "decides"] = None
        if making.tools:
            calls = self._tools_of[key] = f"{key}:calls"
            shown = ", ".join(making.tools)
            name = making.tools[0] if len(making.tools) == 1 else "calls of tools"
            self.sites[calls] = CodeSite(calls, "tool", name, shown, where, True, True)
            self.links[key, calls, "starts"] = None
        return frozenset({key})

    def _follow(self, call: ast.Call, found: CalledFunction, names: Names) -> Keys:
        """Read a function of the module where it is called."""
        place = f"{call.lineno}:{call.col_offset}"
        if place in self._called_from or len(self._called_from) >= MOST_DEPTH:
            return _NOTHING
        outer, inner = self._source, found.source
        tree = found.tree
        is_local = tree in self._inner.values()
        arguments = self._arguments(call, tree, names)
        self._called_from.append(place)
        self._returned.append(_NOTHING)
        self._source = inner
        self._block(tree.body, ({**names} if is_local else {}) | arguments)
        self._source = outer
        self._called_from.pop()
        return self._returned.pop()

    def _arguments(self, call: ast.Call, tree: Function, names: Mapping[str, Keys]) -> Names:
        """Values of a function's parameters; those behind a star go to all that are left."""
        arguments = tree.args
        parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        given: Names = {}
        rest = _NOTHING
        for at, value in enumerate(call.args):
            keys = self._keys(value, dict(names))
            if isinstance(value, ast.Starred) or at >= len(parameters):
                rest |= keys
            else:
                given[parameters[at]] = keys
        for keyword in call.keywords:
            keys = self._keys(keyword.value, dict(names))
            if keyword.arg is None:
                rest |= keys
            else:
                given[keyword.arg] = keys
        others = [*parameters, *(one.arg for one in arguments.kwonlyargs)]
        others += [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
        return dict.fromkeys(others, rest) | given


def _join(names: Names, inside: Names) -> None:
    """Add what a branch left in its variables."""
    for name, keys in inside.items():
        names[name] = names.get(name, _NOTHING) | keys
