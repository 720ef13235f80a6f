"""Output of `agentrt tune`: the report, the tuned file, and the exit code."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output, write_output

if TYPE_CHECKING:
    from agentrt.base.config import EngineConfig
    from agentrt.base.engines.engine_file import EngineFile
    from agentrt.lab.tuning.candidates import TuningCandidate
    from agentrt.lab.tuning.kept_tables import KeptTables
    from agentrt.lab.tuning.tuning_report import TuningReport

NOTHING_KEEPS = 6
"""Exit code if no configuration keeps the rules."""
TOO_SHORT = 5
"""Exit code if the search ended before the baseline had run all cases."""


def check_out(out: Path, *, force: bool) -> None:
    """Check that the tuned file can be written, before anything runs.

    Raises:
        UsageError: The file is there, its folder is not, or what the file holds cannot be kept.
    """
    if out.exists() and not force:
        raise UsageError(
            f"{out} is there already", hint="give --out another name, or --force to change it"
        )
    check_output(out, "--out")
    _held(out)


def write_result(
    report: TuningReport, file: EngineFile, now: EngineConfig, out: Path, form: str
) -> int:
    """Print a report, and write the chosen configuration.

    Args:
        report: The report.
        file: The file that holds now.
        now: Settings of the embedded engine by that file.
        out: The file to write.
        form: "text" or "json".

    Returns:
        0, `NOTHING_KEEPS`, or `TOO_SHORT`.

    Raises:
        UsageError: The file cannot be written.
    """
    chosen = report.standing.chosen
    if chosen is not None:
        text, kept = _tuned(report, report.candidates[chosen], file, now, out)
        _write(text, out)
        if told := kept.in_words():
            typer.echo(f"{out}: {told}", err=True)
    written = "" if chosen is None else str(out)
    if form == "json":
        data = report.data() | {"written": written or None}
        sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    else:
        sys.stdout.write(report.text() + (f"written: {written}\n" if written else ""))
    if chosen is not None:
        return 0
    return TOO_SHORT if report.nearest is None else NOTHING_KEEPS


def _tuned(
    report: TuningReport, chosen: TuningCandidate, file: EngineFile, now: EngineConfig, out: Path
) -> tuple[str, KeptTables]:
    from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED
    from agentrt.lab.tuning.tuned_file import tuned_text

    known = {DEFAULT_ROLE: EMBEDDED, **file.roles}
    roles = {
        role: name
        for role, name in chosen.engines.items()
        if known.get(role) != name and (name == EMBEDDED or name in file.engines)
    }
    before, moved = "", None
    if file.path is not None:
        before = file.path.read_text("utf-8")
        folder = file.path.resolve().parent
        moved = None if folder == out.resolve().parent else folder
    embedded = None if chosen.embedded is None else (now, chosen.embedded)
    is_same = file.path is not None and file.path.resolve() == out.resolve()
    over = "" if is_same else _held(out)
    return tuned_text(
        before, report.comments(), embedded=embedded, roles=roles, moved=moved, over=over
    )


def _held(out: Path) -> str:
    """Text of the file that is written over; "" for none, as of a device.

    Raises:
        UsageError: The file that is there is no engine file, so that nothing of it can be kept.
    """
    if not out.is_file():
        return ""
    from agentrt.base.engines.engine_file import read_engine_file

    try:
        read_engine_file(out)
        return out.read_text("utf-8")
    except UsageError as error:
        raise UsageError(
            f"--force keeps the other tables of {out}, which cannot be read: {error.message}",
            hint="give --out another name, or mend or remove the file",
        ) from None


def _write(text: str, out: Path) -> None:
    """Write the file, once a draft of it has been read back."""
    from agentrt.base.engines.engine_file import read_engine_file

    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        draft.write_text(text, "utf-8")
        read_engine_file(draft)
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written: {error}", hint="give --out a file that can be"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    write_output(out, text)
