"""Ask the finance program the held-out questions, on the embedded engine, and count.

    python examples/embedded_model/evaluate.py
    python examples/embedded_model/evaluate.py --random-weights --limit 40

Counted for each question: did the plan call the right tools with the right arguments (in any order); was every number
of the report in a tool's result; was it said of the symbol and the months that the result is about, and each comparison
true; was the result a valid `Report`. The real program runs on the real runtime; only the functions of `market` are
wrapped, to note what they were asked and what they said, and its deadline is longer, so that a busy machine does not
change the count.
"""

import argparse
import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
from binding import bound
from corpus.example import PROGRAMS, REPOSITORY
from held_out.questions import ORIGINS, Call, Question, every
from judging import canonical, grounded

sys.path.insert(0, str(PROGRAMS))
import market

from agentrt import program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.embedded import path

TRACE = REPOSITORY / "traces" / "embedded_model" / "evaluation.json"
PATIENCE_S = 60.0
TOOLS = (
    "prices",
    "total_return",
    "annual_return",
    "volatility",
    "drawdown",
    "compare",
    "correlation",
)


@dataclass(slots=True)
class Heard:
    """What the tools were asked during one run, and what they said."""

    calls: list[Call] = field(default_factory=list)
    results: list[market.Fact | str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one question went."""

    question: str
    origin: str
    expected: list[str]
    called: list[str]
    right: bool
    grounded: bool
    bound: bool
    valid: bool
    report: dict[str, object] | None
    error: str
    seconds: float


def listen(heard: Heard) -> None:
    """Wrap the functions that the program makes its tools of; to be called before it is imported."""
    for name in TOOLS:
        setattr(market, name, _noting(getattr(market, name), heard))


def _noting(function: Callable[..., market.Fact], heard: Heard) -> Callable[..., market.Fact]:
    @functools.wraps(function)
    def noting(table: market.Table, **arguments: object) -> market.Fact:
        heard.calls.append((function.__name__, arguments))
        try:
            fact = function(table, **arguments)
        except market.TableError as error:
            heard.results.append(str(error))
            raise
        heard.results.append(fact)
        return fact

    return noting


async def judge(questions: list[Question], engine: EngineConfig) -> list[Verdict]:
    """Ask every question, one after the other."""
    heard = Heard()
    listen(heard)
    from finance import finance

    patient = program(deadline=PATIENCE_S)(finance.fn)
    verdicts = []
    async with open_runtime(engine=engine) as runtime:
        for question in questions:
            heard.calls.clear()
            heard.results.clear()
            report, error, started = None, "", time.perf_counter()
            try:
                report = (await runtime.run(patient, question.text)).model_dump()
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
            called, expected = (
                [canonical(c) for c in heard.calls],
                [canonical(c) for c in question.calls],
            )
            told = report if heard.results else None
            verdict = Verdict(
                question.text, question.origin, expected, called,
                right=Counter(called) == Counter(expected),
                grounded=told is not None and grounded(told, heard.results),
                bound=told is not None and bound(told, heard.results),
                valid=report is not None, report=report, error=error,
                seconds=round(time.perf_counter() - started, 3),
            )  # fmt: skip
            verdicts.append(verdict)
    return verdicts


def figures(verdicts: list[Verdict]) -> dict[str, dict[str, float]]:
    """Shares in percent, by the origin of the wording and together."""
    groups = {origin: [v for v in verdicts if v.origin == origin] for origin in ORIGINS}
    groups["all"] = verdicts
    return {
        name: {
            "questions": len(group),
            "right_percent": _percent([v.right for v in group]),
            "grounded_percent": _percent([v.grounded for v in group]),
            "bound_percent": _percent([v.bound for v in group]),
            "valid_percent": _percent([v.valid for v in group]),
            "median_s": sorted(v.seconds for v in group)[len(group) // 2],
        }
        for name, group in groups.items()
        if group
    }


def _percent(hits: list[bool]) -> float:
    return round(100 * sum(hits) / len(hits), 1)


def table(found: dict[str, dict[str, float]]) -> str:
    """The figures in columns."""
    shares = ("right", "grounded", "bound", "valid")
    lines = [
        f"{'wording':12}{'questions':>10}{''.join(f'{s:>10}' for s in shares)}{'median s':>10}"
    ]
    for name, row in found.items():
        cells = "".join(f"{row[f'{share}_percent']:>9}%" for share in shares)
        lines.append(f"{name:12}{row['questions']:>10}{cells}{row['median_s']:>10}")
    return "\n".join(lines)


def main() -> None:
    """Evaluate, print, and write the verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--random-weights", action="store_true", help="what the program does without training"
    )
    parser.add_argument("--model", type=Path, default=path())
    parser.add_argument("--origin", choices=ORIGINS, help="only the questions of this origin")
    parser.add_argument("--limit", type=int, default=0, help="only so many of each origin")
    parser.add_argument("--out", type=Path, help=f"where the verdicts go, by default {TRACE.name}")
    parser.add_argument("-v", action="store_true", help="show each plan that was not right")
    args = parser.parse_args()
    questions = [q for q in every() if args.origin in (None, q.origin)]
    if args.limit:
        questions = [
            q for o in ORIGINS for q in [q for q in questions if q.origin == o][: args.limit]
        ]
    engine = EngineConfig(model_path=args.model, random_weights=args.random_weights)
    verdicts = anyio.run(judge, questions, engine)
    found = figures(verdicts)
    print(table(found))
    if args.v:
        for verdict in verdicts:
            if not (verdict.right and verdict.grounded and verdict.bound):
                print(
                    f"\n{verdict.question}\n  expected {verdict.expected}\n  called   {verdict.called}\n  {verdict.report} {verdict.error}"
                )
    out = args.out or TRACE.with_name(
        "evaluation_random.json" if args.random_weights else TRACE.name
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    weights = "random" if args.random_weights else "trained"
    out.write_text(
        json.dumps(
            {"weights": weights, "figures": found, "verdicts": [asdict(v) for v in verdicts]},
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
