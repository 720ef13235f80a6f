"""Programs whose tools write, and the count of what was written.

Each call of a tool writes one line with a receipt of its own and returns the receipt. A program
returns all receipts that it was given. So a line whose receipt no program has is a call that was
made again, and a receipt without a line is a write that is missing.
"""

import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from agentrt import OutputDiverged, chat, program, tool

PARTS = ("lamp", "chair", "table", "shelf")
CLERK = chat(
    system="You are the clerk of a shop for furniture. You read what a customer wants, note each "
    "article with its number, choose how it is sent, and write short letters in plain words."
)
_numbers = itertools.count()


class Item(BaseModel):
    """An article of an order."""

    article: Annotated[str, Field(max_length=16)]
    count: Annotated[int, Field(ge=1, le=99)]


def booked(ledger: Path, order: int, what: str) -> str:
    """Write a line, whole, and give its receipt."""
    receipt = f"{order}:{what}:{next(_numbers)}"
    with ledger.open("ab", buffering=0) as file:
        file.write(f"{receipt}\n".encode())
        os.fsync(file.fileno())
    return receipt


@tool(effects="write")
def book(ledger: Path, order: int, what: str) -> str:
    """Book a step of an order."""
    return booked(ledger, order, what)


@tool(effects="write")
def reserve(ledger: Path, order: int, part: Literal["lamp", "chair", "table", "shelf"]) -> str:
    """Reserve a part for the order."""
    return booked(ledger, order, part)


@program
async def ordering(order: int, ledger: Path, tokens: int) -> dict[str, Any]:
    """Typed outputs, a text that is read along, calls that start while the plan is written.

    Args:
        order: Number of the order.
        ledger: File of the writes.
        tokens: Length of each text, in tokens.
    """
    ask = CLERK.user(
        f"Order {order}: a customer wants {PARTS[order % 4]}s for {order % 7 + 1} rooms."
    )
    item = ask.generate(Item, max_tokens=60, on_limit="close", name="item", temperature=1.0)
    way = ask.user("How is it sent?").generate(Literal["parcel", "lorry", "courier"], name="way")
    letter = ask.user("Write to the customer.").generate(
        max_tokens=tokens, ignore_eos=True, name="letter", temperature=1.0
    )
    receipts = [await book(ledger, order, f"item {(await item).count}")]
    plan = ask.user("Reserve the parts.").calls(
        reserve.bind(ledger=ledger, order=order), max_calls=3, max_tokens=160, name="plan"
    )
    calls = [call.start() async for call in plan]
    pieces = [piece async for piece in letter.stream()]
    receipts.append(await book(ledger, order, await way))
    receipts += [await call for call in calls]
    last = letter.ctx.user("And in other words?").generate(
        max_tokens=tokens, ignore_eos=True, name="last", temperature=1.0
    )
    receipts.append(await book(ledger, order, f"end {len(await last)}"))
    text = "".join(pieces)
    return {
        "item": await item,
        "way": await way,
        "letter": await letter,
        "last": await last,
        "calls": len(calls),
        "receipts": receipts,
        "is_whole": text == await letter,
    }


@dataclass
class Booked:
    """What programs have given, and what was written.

    Attributes:
        programs: Programs that have ended.
        lost: Errors of those that have no result.
        diverged: Those that ended as `OutputDiverged`, whose first output cannot be had again.
        wrong: Results that are not of their types, or not what was read along.
        twice: Lines of whole programs whose receipts they do not have.
        missing: Receipts without a line.
    """

    programs: int = 0
    lost: list[str] = field(default_factory=list)
    diverged: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Lengths of the lists, and the number of programs."""
        return {name: one if isinstance(one, int) else len(one) for name, one in vars(self).items()}

    @property
    def examples(self) -> dict[str, list[str]]:
        """A few of each list that is not empty."""
        return {name: one[:3] for name, one in vars(self).items() if isinstance(one, list) and one}


def judged(results: dict[int, Any], ledger: Path) -> Booked:
    """Judge programs by their results or errors, by the number of the order."""
    found = Booked(programs=len(results))
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    written: dict[int, list[str]] = {}
    for line in lines:
        written.setdefault(int(line.partition(":")[0]), []).append(line)
    for order, result in results.items():
        if isinstance(result, OutputDiverged):
            found.diverged.append(f"{order}: {result.message}"[:300])
        elif isinstance(result, BaseException):
            found.lost.append(f"{order}: {type(result).__name__}: {result}"[:300])
        else:
            found.wrong += [f"{order}: {fault}" for fault in faults(result)]
            there, told = Counter(written.get(order, [])), Counter(result["receipts"])
            found.twice += list((there - told).elements())
            found.missing += list((told - there).elements())
    return found


def faults(result: dict[str, Any]) -> Sequence[str]:
    """Faults of one result."""
    item, found = result["item"], []
    if type(item) is not Item or not 1 <= item.count <= 99:
        found.append(f"{item!r} is no item")
    if result["way"] not in ("parcel", "lorry", "courier"):
        found.append(f"{result['way']!r} is no way")
    if not (result["letter"] and result["last"] and result["is_whole"]):
        found.append("a text is not what was read along")
    if not 1 <= result["calls"] <= 3:
        found.append(f"{result['calls']} calls")
    if len(result["receipts"]) != 3 + result["calls"]:
        found.append(f"{len(result['receipts'])} receipts")
    return found
