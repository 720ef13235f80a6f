"""`agentrt runs`: estimates learned from past runs, and how to forget them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from agentrt.cli.stored_rows import StoredRows
    from agentrt.runtime.estimate_store.database import EstimateStore

runs = typer.Typer(help="What past runs taught.", no_args_is_help=True)

Site = Annotated[
    str,
    typer.Option(
        "--site", metavar="GLOB", help="Call sites or programs, as plan, finance* or '*.py:31'."
    ),
]


@runs.command("estimates")
def estimates(
    site: Site = "*",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, all depths.")] = False,
) -> int:
    """Show what was learned of each call site: lengths, times, what is left behind it.

    Two numbers are the median and the 90th percentile. TOKENS are those of an output, and beside an
    engine those of the KV cache at the peak of a run. TAKES is the time of one call; REST the
    work of engines that the run still needs from there; PATH the time of the longest chain from
    there, DEPTH its calls; THEN what follows, the likeliest first.
    """
    from agentrt.cli.estimates import as_object, lines_of

    return _print(site, as_object, lines_of, as_json=as_json)


@runs.command("patterns")
def patterns(
    site: Site = "*",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Show which tools are expected next (run --speculate), and where arguments come from.

    Names and positions are kept, but no values except true, false, null and those that a tool's
    own signature names.
    """
    from agentrt.cli.patterns import as_object, lines_of

    return _print(site, as_object, lines_of, as_json=as_json)


@runs.command("forget")
def forget(site: Site = "*") -> int:
    """Drop what was learned of call sites or programs, patterns too; of all without --site."""
    store = _store()
    rows = store.forget(site) if store is not None else 0
    sys.stdout.write(f"forgot {rows} rows\n")
    return 0


def _print(
    site: str,
    as_object: Callable[[StoredRows, str], object],
    lines_of: Callable[[StoredRows, str, int], list[str]],
    *,
    as_json: bool,
) -> int:
    store = _store()
    kept = store.all_rows() if store is not None else []
    try:
        if as_json:
            text = json.dumps(as_object(kept, site), ensure_ascii=False, separators=(",", ":"))
            sys.stdout.write(text + "\n")
            return 0
        lines = lines_of(kept, site, shutil.get_terminal_size().columns)
    except ValueError as error:
        raise UsageError(
            f"{store.path if store is not None else 'the file'}: {error}",
            hint="`agentrt runs forget` begins anew; the next run moves it aside by itself",
        ) from None
    if not lines:
        where = "learning is switched off" if store is None else f"looked in {store.path}"
        what = "yet" if site == "*" else f"of {site!r}"
        lines = [f"Nothing was learned {what}; {where}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _store() -> EstimateStore | None:
    """The user's file; None if learning is switched off."""
    import os

    from agentrt.runtime.estimate_store import estimates_path
    from agentrt.runtime.estimate_store.database import EstimateStore

    path = estimates_path(os.environ)
    return EstimateStore(path) if path is not None else None
