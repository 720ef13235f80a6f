"""Python code of a chat template, with its work and memory counted as it runs."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from agentrt.prompt.template_meter import CHARACTERS_PER_STEP


class MeteredCode(CodeGenerator):
    """Generates code that counts what Jinja does without a call of the environment."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        """Count values that a loop's condition skips: the body of the loop does not see them."""
        for loop in node.find_all(nodes.For):
            if loop.test is not None:
                values = nodes.Filter(loop.iter, "list", [], [], None, None)
                loop.iter = values.set_lineno(loop.lineno)
        super().visit_Template(node, frame)

    def blockvisit(self, statements: Iterable[nodes.Node], frame: Frame) -> None:
        """Count each execution of a body, with all branches in it, but not the bodies in it."""
        statements = list(statements)
        if not frame.soft_frame:  # no branch
            steps, characters = _sizes(statements)
            self.writeline(f"environment.meter.count_block({1 + steps}, {characters})")
        super().blockvisit(statements, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        join = "markup_join" if frame.eval_ctx.autoescape else "str_join"
        if frame.eval_ctx.volatile:
            join = "(markup_join if context.eval_ctx.volatile else str_join)"
        self.write(f"{join}(environment.weigh_texts((")
        self._visit_all(node.nodes, frame)
        self.write(")))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Const):
            super().visit_Getitem(node, frame)
            return
        is_slice = isinstance(node.arg, nodes.Slice)
        self.write("environment.weigh_slice(" if is_slice else "environment.weigh_item(")
        self.visit(node.node, frame)
        self.write(")[" if is_slice else ", ")
        self.visit(node.arg, frame)
        self.write("]" if is_slice else ")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        sides = [node.expr, *(operand.expr for operand in node.ops)]
        has_member_test = any(operand.op in ("in", "notin") for operand in node.ops)
        if len(node.ops) > 1 and has_member_test:
            self.fail("a chain of comparisons has no `in`", node.lineno)
        if any(map(_is_constant, sides[1:] if has_member_test else sides)):
            super().visit_Compare(node, frame)
        elif has_member_test:
            self.write("(" if node.ops[0].op == "in" else "(not ")
            self.write("environment.holds(")
            self._visit_all(sides, frame)
            self.write("))")
        else:
            operators = tuple(operand.op for operand in node.ops)
            self.write(f"environment.compare({operators!r}, (")
            self._visit_all(sides, frame)
            self.write("))")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        """Weigh tuples of values: they are the only containers that can be hashed."""
        if node.ctx != "load" or _is_constant(node):
            super().visit_Tuple(node, frame)
            return
        self.write("environment.weigh_all(")
        super().visit_Tuple(node, frame)
        self.write(")")

    def _visit_all(self, parts: Iterable[nodes.Expr], frame: Frame) -> None:
        for part in parts:
            self.visit(part, frame)
            self.write(", ")


def _sizes(statements: Iterable[nodes.Node]) -> tuple[int, int]:
    """Nodes, and characters of text, that one execution of these statements has at most."""
    steps = characters = 0
    todo = list(statements)
    while todo:
        node = todo.pop()
        steps += 1
        text = getattr(node, "data" if isinstance(node, nodes.TemplateData) else "value", None)
        if isinstance(text, str):
            characters += len(text)
        is_part = isinstance(node, nodes.If | nodes.ScopedEvalContextModifier)
        todo += node.iter_child_nodes(exclude=() if is_part else ("body", "else_"))
    return steps + characters // CHARACTERS_PER_STEP, characters


def _is_constant(node: nodes.Expr) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Const)
