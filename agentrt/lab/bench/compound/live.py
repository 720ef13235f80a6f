"""The programs of a folder as a user runs them: the embedded model decides what it writes.

Each is run by `agentrt run --batch`, one input after the other in one process, and reports its own
latency, split and tokens. There is no other arm: plain clients would send other requests than our
language does, so only programs of known work (`replay`) are compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentrt.analysis.statistics import mean, percentiles
from agentrt.base.errors import UsageError
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log

_LONGEST_S = 600.0

CASES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "finance": (
        {"question": "Which returned more from 2005 to 2009, AAPL or IBM?"},
        {"question": "How volatile was MSFT in 2003?"},
        {"question": "What was the largest drawdown of AMZN from 2001 to 2004?"},
    ),
    "react": (
        {"question": "How much did Veldhaven grow from 1990 to 2020?"},
        {"question": "How many people lived in Veldhaven in 2020?"},
    ),
    "vote": ({"question": "What is 47 + 38?"}, {"question": "What is 120 - 45?"}),
    "tree": ({"question": "What is 47 + 38?"}, {"question": "What is 91 - 27?"}),
    "advisor": (
        {
            "history": [{"role": "system", "content": "You explain terms of finance."}],
            "message": "What is risk?",
        },
    ),
    "extract": (
        {"text": "Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."},
        {"text": "Jon Berg, Bergen, jon@example.org: 12 blue chairs please."},
    ),
}
"""Inputs by the program's name; a file `NAME.py` of the folder is run with each of them."""


def measured_live(folder: Path, repeats: int) -> dict[str, dict[str, Any]]:
    """Run every program that there are inputs for.

    Args:
        folder: Folder of programs, such as `programs/`.
        repeats: Runs of each input, after one that warms up.

    Raises:
        UsageError: The folder has none of them.
        BenchFailed: A program could not be run at all.
    """
    found = {}
    for name, file in live_programs(folder).items():
        log(f"running {name} live")
        inputs = CASES[name]
        runs = _runs(file, [*inputs[:1], *(list(inputs) * repeats)])
        found[name] = summary_of(runs[1:])
    return found


def live_programs(folder: Path) -> dict[str, Path]:
    """The programs of a folder that there are inputs for, by name.

    Raises:
        UsageError: The folder has none of them.
    """
    files = {name: folder / f"{name}.py" for name in CASES}
    found = {name: file for name, file in files.items() if file.is_file()}
    if not found:
        raise UsageError(
            f"{folder} has none of {', '.join(file.name for file in files.values())}",
            hint="Give --live the folder `programs` of the repository",
        )
    return found


def summary_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures over `agentrt.run/1` objects of one program."""
    latencies = [run["latency"]["compound_ms"] / 1e3 for run in runs]
    splits = [run["latency"]["split_ms"] for run in runs]
    usage = Counter[str]()
    for run in runs:
        counts = run["usage"].items()
        usage.update({name: count for name, count in counts if isinstance(count, int)})
    return {
        "runs": len(runs),
        "ok": sum(bool(run["ok"]) for run in runs),
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "split_s": {label: mean([split[label] for split in splits]) / 1e3 for label in splits[0]},
        "usage": dict(usage),
        "samples_s": latencies,
    }


def _runs(file: Path, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as batch:
        batch.write("".join(json.dumps(one) + "\n" for one in inputs))
        batch.flush()
        command = [sys.executable, "-P", "-m", "agentrt", "run", str(file), "--batch", batch.name]
        command += ["--concurrency", "1", "--json", "--trace", "off", "--seed", "0", "-q"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(runs) != len(inputs):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BenchFailed(f"{file.name} reported {len(runs)} runs of {len(inputs)}: {last[0]}")
    return runs
