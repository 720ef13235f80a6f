"""Ask the finance program the held-out questions, on the embedded engine, and count.

    python examples/embedded_model/evaluate.py
    python examples/embedded_model/evaluate.py --random-weights --limit 40

Counted for each question that has an answer: does the report hold the right figures, and no other symbol's; was the
question refused. For each other one: was it said that there is no answer. For each report: is every number in a tool's
result; is it said of the symbol, the metric and the months that it is of, and each comparison true. The real program
runs on the real runtime; only the functions of `market` are wrapped, to note what they were asked and what they said,
and its deadline is longer, so that a busy machine does not change the count.
"""

import argparse
import functools
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import anyio
from binding import bound
from corpus.example import REPOSITORY, compact
from corpus.finance import FUNCTIONS, market
from corpus.finance_tables import closes
from held_out.questions import ORIGINS, Call, Question, every
from held_out.tables import TABLES
from judging import Wanted, answers, grounded, wanted

from agentrt import program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.embedded import path

TRACE = REPOSITORY / "traces" / "embedded_model" / "evaluation.json"
STOCKS = REPOSITORY / "programs" / "data" / "stocks.csv"
PATIENCE_S = 60.0
AT_ONCE = 8
SHARES = ("right", "refused", "said_so", "grounded", "bound", "valid")

Result = list[market.Figure] | str


@dataclass(slots=True)
class Heard:
    """What the tools were asked during one run, and what they said."""

    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one question went; a count that does not apply to it is None."""

    question: str
    origin: str
    answerable: bool
    called: list[str]
    right: bool | None
    refused: bool | None
    said_so: bool | None
    grounded: bool | None
    bound: bool | None
    valid: bool
    report: dict[str, object] | None
    error: str
    seconds: float


def listen(heard: Mapping[int, Heard]) -> None:
    """Wrap the functions that the program makes its tools of; to be called before it is imported.

    Args:
        heard: Where to note what is said of a table, by the `id` of its closes: each question has its own.
    """
    for name in FUNCTIONS:
        setattr(market, name, _noting(getattr(market, name), heard))


def _noting(function: Callable[..., Result], heard: Mapping[int, Heard]) -> Callable[..., Result]:
    @functools.wraps(function)
    def noting(table: closes.Table, **arguments: object) -> Result:
        known = {k: v for k, v in arguments.items() if v is not None}
        heard[id(table.closes)].calls.append((function.__name__, known))
        try:
            fact = function(table, **arguments)
        except closes.TableError as error:
            heard[id(table.closes)].results.append(str(error))
            raise
        heard[id(table.closes)].results.append(fact)
        return fact

    return noting


def _copy(table: closes.Table) -> closes.Table:
    return replace(table, closes=dict(table.closes))


async def judge(questions: Sequence[Question], engine: EngineConfig, folder: Path) -> list[Verdict]:
    """Ask every question, a few at a time."""
    files = {"": STOCKS} | {name: table.write(folder) for name, table in TABLES.items()}
    tables = {name: closes.load(file) for name, file in files.items()}
    own = {Path(str(n)): _copy(tables[q.data]) for n, q in enumerate(questions)}
    heard = {id(table.closes): Heard() for table in own.values()}
    expected = [wanted(question, tables[question.data]) for question in questions]
    listen(heard)
    setattr(closes, "load", own.__getitem__)  # noqa: B010
    from finance import finance

    patient = program(deadline=PATIENCE_S)(finance.fn)
    verdicts: dict[int, Verdict] = {}
    async with open_runtime(engine=engine) as runtime, anyio.create_task_group() as tasks:
        turns = anyio.CapacityLimiter(AT_ONCE)

        async def ask(n: int, file: Path) -> None:
            async with turns:
                said, error, started = None, "", time.perf_counter()
                try:
                    said = (await runtime.run(patient, questions[n].text, file)).model_dump()
                except Exception as raised:
                    error = f"{type(raised).__name__}: {raised}"
                seconds = round(time.perf_counter() - started, 3)
            found = heard[id(own[file].closes)]
            verdicts[n] = verdict(questions[n], expected[n], found, said, error, seconds)

        for n, file in enumerate(own):
            tasks.start_soon(ask, n, file)
    return [verdicts[n] for n in range(len(questions))]


def verdict(
    question: Question,
    expected: Sequence[Wanted],
    heard: Heard,
    said: dict[str, object] | None,
    error: str,
    seconds: float,
) -> Verdict:
    """How a question went that was answered with `said`, or with an error."""
    is_report, answerable = said is not None and "figures" in said, bool(expected)
    report = said if is_report else None
    return Verdict(
        question.text, question.origin, answerable, [f"{name}{compact(a)}" for name, a in heard.calls],
        right=said is not None and answers(said, expected, question.about) if answerable else None,
        refused=said is not None and not is_report if answerable else None,
        said_so=None if answerable else said is not None and not is_report,
        grounded=None if report is None else grounded(report, heard.results),
        bound=None if report is None else bound(report, heard.results),
        valid=said is not None, report=said, error=error, seconds=seconds,
    )  # fmt: skip


def figures(verdicts: Sequence[Verdict]) -> dict[str, dict[str, float | None]]:
    """Shares in percent, by the origin of the wording and together."""
    groups = {origin: [v for v in verdicts if v.origin == origin] for origin in ORIGINS}
    groups["all"] = list(verdicts)
    return {
        name: {
            "questions": len(group),
            "answerable": sum(v.answerable for v in group),
            **{
                f"{share}_percent": _percent([getattr(v, share) for v in group]) for share in SHARES
            },
            "median_s": sorted(v.seconds for v in group)[len(group) // 2],
        }
        for name, group in groups.items()
        if group
    }


def _percent(hits: list[bool | None]) -> float | None:
    """The share of those that are counted; None where none is."""
    counted = [hit for hit in hits if hit is not None]
    return round(100 * sum(counted) / len(counted), 1) if counted else None


def table(found: dict[str, dict[str, float | None]]) -> str:
    """The figures in columns."""
    header = f"{'wording':12}{'questions':>10}{'answerable':>11}"
    lines = [f"{header}{''.join(f'{s:>10}' for s in SHARES)}{'median s':>10}"]
    for name, row in found.items():
        shares = [row[f"{share}_percent"] for share in SHARES]
        cells = "".join(f"{'-':>10}" if share is None else f"{share:>9}%" for share in shares)
        lines.append(
            f"{name:12}{row['questions']:>10}{row['answerable']:>11}{cells}{row['median_s']:>10}"
        )
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
    parser.add_argument("--origin", choices=ORIGINS, action="append", help="only the questions of this origin")  # fmt: skip
    parser.add_argument("--limit", type=int, default=0, help="only so many of each origin")
    parser.add_argument("--out", type=Path, help=f"where the verdicts go, by default {TRACE.name}")
    parser.add_argument("-v", action="store_true", help="show each question that went wrong")
    args = parser.parse_args()
    origins = args.origin or ORIGINS
    asked = [[q for q in every() if q.origin == origin] for origin in origins]
    questions = [q for group in asked for q in group[: args.limit or len(group)]]
    engine = EngineConfig(model_path=args.model, random_weights=args.random_weights)
    with tempfile.TemporaryDirectory() as folder:
        verdicts = anyio.run(judge, questions, engine, Path(folder))
    found = figures(verdicts)
    print(table(found))
    for verdict in verdicts if args.v else ():
        if False in (verdict.right, verdict.said_so, verdict.bound, verdict.valid):
            print(
                f"\n{verdict.question}\n  called   {verdict.called}\n  {verdict.report} {verdict.error}"
            )
    out = args.out or TRACE.with_name(
        "evaluation_random.json" if args.random_weights else TRACE.name
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    weights = "random" if args.random_weights else "trained"
    written = {"weights": weights, "figures": found, "verdicts": [asdict(v) for v in verdicts]}
    out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
