"""Arguments of tools that are held to what is bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pytest

from agentrt import NotYetKnown, OneOf, ToolFailed, UsageError, chat, program, tool
from agentrt.testing import calls_text


@dataclass(frozen=True)
class Table:
    symbols: tuple[str, ...]


def symbols_of(table: Table) -> Sequence[str]:
    return table.symbols


Symbol = Annotated[str, OneOf(symbols_of)]


@tool(effects="pure")
def price(table: Table, symbol: Symbol, unit: Annotated[str, OneOf(["USD", "EUR"])] = "USD") -> str:
    """The price."""
    return f"{symbol} in {unit} of {len(table.symbols)}"


@tool(effects="pure")
def compare(table: Table, symbols: list[Symbol]) -> int:
    """Compares."""
    return len(symbols)


SMALL = Table(("IBM", "BRK.B"))


def test_what_a_prompt_shows_does_not_depend_on_data() -> None:
    shown = [price.bind(table=one).spec.schema for one in (SMALL, Table(("A",) * 999))]
    assert shown[0] == shown[1]
    assert shown[0].parameters["properties"]["symbol"] == {"type": "string"}
    assert shown[0].parameters["properties"]["unit"] == {"type": "string", "default": "USD"}


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ('{"symbol":"IBM"}', True),
        ('{"symbol":"BRK.B","unit":"EUR"}', True),
        ('{"symbol":"ibm"}', False),
        ('{"symbol":"IBM","unit":"GBP"}', False),
    ],
)
def test_arguments_are_checked_against_the_options(arguments: str, fits: bool) -> None:
    spec = price.bind(table=SMALL).spec
    if fits:
        assert spec.parse(arguments)["symbol"] in SMALL.symbols
        return
    with pytest.raises(ToolFailed, match="none of the options"):
        spec.parse(arguments)


def test_each_table_has_options_of_its_own() -> None:
    other = price.bind(table=Table(("X",))).spec
    assert other.parse('{"symbol":"X"}') == {"symbol": "X"}
    with pytest.raises(ToolFailed, match="none of the options"):
        price.bind(table=SMALL).spec.parse('{"symbol":"X"}')


def test_a_plan_is_held_to_the_symbols_of_its_table(bench, codec) -> None:
    """The scripted engine holds its script to the constraint."""

    @program
    async def plan(table: Table) -> list[object]:
        tools = (price.bind(table=table), compare.bind(table=table))
        asked = chat().user("What is IBM worth?").calls(*tools, name="plan")
        return [await call.start() async for call in asked]

    frame = codec.call_frame
    right = calls_text(
        ("price", {"symbol": "BRK.B"}), ("compare", {"symbols": ["IBM", "IBM"]}), frame=frame
    )
    assert bench([right], codec=codec).run(plan, SMALL) == ["BRK.B in USD of 2", 2]
    for name, arguments in (("price", {"symbol": "AAPL"}), ("compare", {"symbols": ["AAPL"]})):
        wrong = calls_text((name, arguments), frame=frame)
        with pytest.raises(Exception, match="script's answer"):
            bench([wrong], codec=codec).run(plan, SMALL)


def test_options_may_still_be_computed(bench, codec) -> None:
    """The plan is declared before the symbols are known, and waits for nothing else."""

    @tool(effects="pure")
    def symbols() -> list[str]:
        """All symbols."""
        return ["IBM"]

    @program
    async def plan() -> list[object]:
        known = symbols()

        @tool(effects="pure")
        def worth(symbol: Annotated[str, OneOf(known)]) -> str:
            """What it is worth."""
            return symbol

        asked = chat().user("What is IBM worth?").calls(worth, name="plan")
        return [await call.start() async for call in asked]

    rig = bench([calls_text(("worth", {"symbol": "IBM"}), frame=codec.call_frame)], codec=codec)
    assert rig.run(plan) == ["IBM"]
    assert rig.backend.seen.requests[0].constraint.holes == ("tools:worth:0",)
    [(_, fill)] = rig.backend.seen.fills
    assert fill.constraint.tools[0].parameters["$defs"] == {"tools:worth:0": {"enum": ["IBM"]}}


def test_options_depend_on_what_is_bound() -> None:
    @tool(effects="pure")
    def odd(symbol: Symbol) -> str:
        """Odd."""
        return symbol

    with pytest.raises(UsageError, match="table, which is not bound"):
        odd.spec.parse('{"symbol":"IBM"}')


def test_a_function_gives_options_to_tools_alone(bench) -> None:
    @program
    async def wrong() -> str:
        return await chat().user("x").generate(Symbol)

    with pytest.raises(UsageError, match="no bound arguments"):
        bench(["IBM"]).run(wrong)


def test_a_pending_node_has_no_options_yet(bench) -> None:
    @tool(effects="pure")
    def symbols() -> list[str]:
        """All symbols."""
        return ["IBM"]

    @program
    async def early() -> object:
        return OneOf(symbols()).texts

    with pytest.raises(NotYetKnown):
        bench([]).run(early)
