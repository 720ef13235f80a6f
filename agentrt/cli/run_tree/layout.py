"""Layout of a tree as rows of text, from its state and a width alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from rich.cells import cell_len, set_cell_size

from agentrt.base.money import money_text
from agentrt.base.record import record
from agentrt.cli.run_tree.choice import Row, rows_of
from agentrt.cli.run_tree.figures import count, duration, rate
from agentrt.cli.run_tree.glyphs import COLOURS, FAINT, STATE_COLOURS, UNICODE, Glyphs
from agentrt.cli.run_tree.node import GROUPS, RunTree, TreeNode, group_of

LEAST_WIDTH = 20
_STATE_WIDTH = 10
_NAME_SHARE = 0.34
_LONGEST_NAME = 44
_LEAST_BAR, _LONGEST_BAR = 8, 60
_SHORT = 1e-3  # of a cell
_PROGRAM = "program"


@record
class StyledText:
    """Text in one style.

    Attributes:
        text: Text without line ends.
        style: Name of a colour and its attributes; "" for none.
    """

    text: str
    style: str = ""


Line = tuple[StyledText, ...]


def text_of(line: Line) -> str:
    """A line without styles."""
    return "".join(piece.text for piece in line).rstrip()


@record
class View:
    """How a tree is drawn.

    Attributes:
        width: Columns.
        most_rows: Maximum number of rows, head and legend included; None draws every node.
        now_s: Present instant of the tree's clock; the end of a tree that has ended counts instead.
        glyphs: Characters.
        with_reasons: Whether a line below a node tells why it failed or was cancelled.
        notes: Lines below the tree, which take rows too.
    """

    width: int
    most_rows: int | None = None
    now_s: float = 0.0
    glyphs: Glyphs = field(default_factory=lambda: UNICODE)
    with_reasons: bool = False
    notes: tuple[str, ...] = ()


@record
class _Columns:
    """Widths of the columns; 0 leaves one out."""

    name: int
    bar: int
    figures: dict[str, int]


@record
class _Sums:
    """Additions of the nodes in flight to a branch: output tokens, and tokens of context."""

    tokens: dict[str, int]
    kv_tokens: dict[str, int]


def tree_lines(
    tree: RunTree,
    view: View,
    wanted: Iterable[TreeNode] = (),
    in_flight: Iterable[TreeNode] = (),
) -> list[Line]:
    """The rows of a tree, none wider than the view and no more than it allows.

    Args:
        tree: The tree.
        view: How it is drawn.
        wanted: Nodes that get a row first if there are too many.
        in_flight: Nodes at work, whose tokens count for the branches above them.
    """
    width = max(LEAST_WIDTH, view.width)
    notes = [(StyledText(_fit(note, width), FAINT),) for note in view.notes]
    most = view.most_rows
    has_frame = most is None or most >= 6
    if most is not None:
        most = max(2, most - (2 + len(notes) if has_frame else 0))
    rows = rows_of(tree, wanted, most)
    drawing = _Drawing(tree, view, width, rows, _sums(in_flight))
    lines = [line for row in rows for line in drawing.lines_of(row)]
    return [drawing.head(), *lines, drawing.legend(), *notes] if has_frame else lines


def tree_text(tree: RunTree, width: int, glyphs: Glyphs) -> str:
    """A tree that is over, with all of its nodes, as plain text."""
    lines = tree_lines(tree, View(width, glyphs=glyphs, with_reasons=True))
    return "\n".join(map(text_of, lines))


def _sums(in_flight: Iterable[TreeNode]) -> _Sums:
    sums = _Sums({}, {})
    for node in in_flight:
        if node.kind != "generate":
            continue
        for above in node.ancestors():
            sums.tokens[above.key] = sums.tokens.get(above.key, 0) + node.tokens
            context = node.prompt_tokens + node.tokens
            sums.kv_tokens[above.key] = sums.kv_tokens.get(above.key, 0) + context
    return sums


def _fit(text: str, width: int, cut: str = "") -> str:
    """Text of exactly `width` columns, without control characters."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    if cut and cell_len(plain) > width:
        return set_cell_size(plain, width - 1) + cut
    return set_cell_size(plain, width)


def painted(
    stretches: Iterable[tuple[str, float, float]], began_s: float, ended_s: float, columns: int
) -> list[str]:
    """Labels of the cells of a bar: in each cell the one that takes most of it, else "".

    The cell of a stretch that is short beside a cell is not left empty.

    Args:
        stretches: Label, first instant and end of each.
        began_s: First instant of the bar.
        ended_s: End of the bar.
        columns: Number of cells, at least 1.
    """
    cells, shares = [""] * columns, [0.0] * columns
    per_s = columns / (ended_s - began_s) if ended_s > began_s else 0.0
    for label, from_s, to_s in stretches:
        first = min(max(0.0, (from_s - began_s) * per_s), columns - _SHORT)
        last = min(max((to_s - began_s) * per_s, first + _SHORT), float(columns))
        for cell in range(int(first), min(columns, int(last) + 1)):
            share = min(last, cell + 1.0) - max(first, float(cell))
            if share > shares[cell]:
                cells[cell], shares[cell] = label, share
    return cells


class _Drawing:
    def __init__(self, tree: RunTree, view: View, width: int, rows: list[Row], sums: _Sums) -> None:
        self._tree = tree
        self._view = view
        self._width = width
        self._glyphs = view.glyphs
        self._sums = sums
        self._began_s = tree.root.started_at_s
        self._end_s = tree.end_s(view.now_s)
        self._columns = self._fitted(rows)
        self._used: set[str] = set()

    def _fitted(self, rows: list[Row]) -> _Columns:
        """The columns that the width has room for; the least telling ones go first."""
        longest = max(2 * len(row.last) + cell_len(row.node.name) + len(_more(row)) for row in rows)
        name = min(longest, int(self._width * _NAME_SHARE), _LONGEST_NAME)
        name = max(name, min(longest, 10))
        figures = {"time": 8, "tokens": 7, "tok/s": 6, "KV": 6}
        if self._tree.currency:
            figures["cost"] = 10
        if any(row.node.saving_s is not None for row in rows):
            figures["saves"] = 8
        if any(row.node.cached_tokens is not None for row in rows):
            figures["cached"] = 7
        fixed = name + 1 + _STATE_WIDTH + 2
        for least in ("cached", "KV", "tok/s", "saves", "tokens", "cost", "time"):
            if fixed + sum(figures.values()) + _LEAST_BAR <= self._width:
                break
            figures.pop(least, None)
        bar = min(_LONGEST_BAR, self._width - fixed - sum(figures.values()))
        if bar < _LEAST_BAR:
            bar, name = 0, max(1, self._width - 1 - _STATE_WIDTH - 2 - sum(figures.values()))
        return _Columns(name, bar, figures)

    def head(self) -> Line:
        """Headings of the columns."""
        columns = self._columns
        whole = duration(self._end_s - self._began_s)
        axes = (f"0 to {whole}", whole, "")
        axis = next(one for one in axes if len(one) <= columns.bar)
        text = _fit("", columns.name + 1 + _STATE_WIDTH + 2) + _fit(axis, columns.bar)
        for name, width in columns.figures.items():
            title = self._tree.currency or name if name == "cost" else name
            text += title[: width - 1].rjust(width)
        return (StyledText(_fit(text, self._width), FAINT),)

    def legend(self) -> Line:
        """Meaning of the marks that the rows have used."""
        marks = [
            f"{mark} {label}"
            for label, mark in self._glyphs.marks.items()
            if label in self._used and self._columns.bar
        ]
        if "critical" in self._used:
            marks.append("* critical path")
        return (StyledText(_fit("  ".join(marks), self._width, self._glyphs.cut), FAINT),)

    def lines_of(self, row: Row) -> Iterable[Line]:
        """The line of a row, and that of its reason if it is wanted."""
        if row.is_count:
            yield (StyledText(_fit(self._guides(row) + _counts(row), self._width), FAINT),)
            return
        node = row.node
        yield (*self._beginning(row), *self._bar(node), StyledText(self._figures(node)))
        if self._view.with_reasons and node.why and node.state in ("failed", "cancelled"):
            guides = self._continued(row)
            text = _fit(f"{guides}{node.state}: {node.why}", self._width, self._glyphs.cut)
            yield (StyledText(text, STATE_COLOURS[node.state]),)

    def _beginning(self, row: Row) -> Line:
        node, columns, glyphs = row.node, self._columns, self._glyphs
        more = _more(row)
        guides = self._guides(row)
        room = columns.name - cell_len(guides) - len(more)
        name = _fit(_shortened(node.name, room, glyphs.cut) + more, columns.name - cell_len(guides))
        if node.critical:
            self._used.add("critical")
        state = StyledText(_fit(node.state, _STATE_WIDTH), STATE_COLOURS.get(node.state, ""))
        faint = FAINT if group_of(node.state) == "waiting" else ""
        mark = StyledText("* " if node.critical else "  ", "bold")
        return (StyledText(guides, FAINT), StyledText(name + " ", faint), state, mark)

    def _guides(self, row: Row) -> str:
        glyphs = self._glyphs
        if not row.last:
            return ""
        here = glyphs.more if row.is_count else glyphs.last if row.last[-1] else glyphs.branch
        above = "".join("  " if last else glyphs.through for last in row.last[:-1])
        room = max(0, self._columns.name // 2 - 2)
        if len(above) > room:
            above = (glyphs.cut + above[len(above) - room + 1 :])[:room]
        return above + here

    def _continued(self, row: Row) -> str:
        """Guides of a line below a row."""
        beginning = self._guides(row)
        own = "  " if not row.last or row.last[-1] else self._glyphs.through
        return beginning[: max(0, len(beginning) - 2)] + own + "  "

    def _bar(self, node: TreeNode) -> Line:
        columns = self._columns.bar
        if not columns:
            return ()
        stretches: list[tuple[str, float, float]] = [
            (stage.label, stage.started_at_s, stage.ended_at_s)
            for stage in node.stages_at(self._end_s)
        ]
        if node.kind in ("program", "batch"):
            end_s = self._end_s if node.ended_at_s is None else node.ended_at_s
            stretches = [(_PROGRAM, node.started_at_s, end_s)]
        cells = painted(stretches, self._began_s, self._end_s, columns)
        self._used.update(cells)
        return tuple(self._runs(cells))

    def _runs(self, cells: list[str]) -> Iterable[StyledText]:
        """Cells of one label in a row as one piece."""
        marks = {**self._glyphs.marks, _PROGRAM: self._glyphs.program, "": " "}
        colours = {**COLOURS, _PROGRAM: FAINT}
        first = 0
        for place in range(1, len(cells) + 1):
            if place == len(cells) or cells[place] != cells[first]:
                label = cells[first]
                yield StyledText(marks[label] * (place - first), colours.get(label, ""))
                first = place

    def _figures(self, node: TreeNode) -> str:
        return "".join(
            self._figure(node, name)[: width - 1].rjust(width)
            for name, width in self._columns.figures.items()
        )

    def _figure(self, node: TreeNode, name: str) -> str:
        match name:
            case "time":
                waits = node.state == "waiting"
                end_s = self._end_s if node.ended_at_s is None else node.ended_at_s
                return "" if waits else duration(end_s - node.started_at_s)
            case "tokens":
                tokens = self._tokens(node)
                return count(tokens) if tokens else ""
            case "tok/s":
                return rate(self._rate(node))
            case "KV":
                return self._kv(node)
            case "cost":
                pico = node.counts.cost_pico
                return money_text(pico, "") if pico else ""
            case "saves":
                return "" if node.saving_s is None else duration(node.saving_s)
            case _:
                cached = node.cached_tokens
                return "" if cached is None else count(cached)

    def _tokens(self, node: TreeNode) -> int:
        if not node.has_ended and node.kind == "generate":
            return node.tokens
        return node.counts.tokens + self._sums.tokens.get(node.key, 0)

    def _rate(self, node: TreeNode) -> float:
        tokens = self._tokens(node)
        if node.kind != "generate":
            end_s = self._end_s if node.ended_at_s is None else node.ended_at_s
            took_s = end_s - node.started_at_s
        elif node.has_ended:
            tokens, took_s = tokens - 1, node.decode_s
        else:
            began_s = node.first_token_at_s
            took_s = 0.0 if began_s is None else self._end_s - began_s
        return tokens / took_s if took_s > 0.0 else 0.0

    def _kv(self, node: TreeNode) -> str:
        tokens = node.prompt_tokens + node.tokens
        if node.kind != "generate":
            tokens = self._sums.kv_tokens.get(node.key, 0)
        elif node.state in ("waiting", "held"):
            tokens = 0
        return count(tokens) if tokens else ""


def _more(row: Row) -> str:
    """Count of the nodes that a branch hides after its end, for its row."""
    return f" +{sum(row.counted.values())}" if row.counted and not row.is_count else ""


def _counts(row: Row) -> str:
    counted = row.counted or {}
    words = ", ".join(f"{counted[group]} {group}" for group in GROUPS if counted.get(group))
    return f"and {words}"


def _shortened(name: str, width: int, cut: str) -> str:
    """A name in `width` columns; its number at the end stays."""
    if width <= 0:
        return ""
    if cell_len(name) <= width:
        return name
    stem, hash_mark, number = name.rpartition("#")
    tail = hash_mark + number if hash_mark and len(number) + 3 <= width else ""
    stem = stem if tail else name
    room = width - len(tail) - 1
    return set_cell_size(stem, room).rstrip() + cut + tail if room > 0 else name[:width]
