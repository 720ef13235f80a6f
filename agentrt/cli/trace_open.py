"""`agentrt trace open`: a run in a browser, in Jaeger's page if it is there, else as a report."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.base.private_files import make_private_folder
from agentrt.base.user_folders import state_folder
from agentrt.cli.run_argument import Folder, run_argument

if TYPE_CHECKING:
    from agentrt.telemetry.span import Trace

MOST_REPORTS = 50
_TIMEOUT_S = 5.0
_TRACE_ID = "{trace_id}"


def open_run(
    run: Annotated[str, run_argument()],
    viewer: Annotated[
        str,
        typer.Option(
            "--viewer",
            metavar="URL",
            help="A Jaeger UI, as http://localhost:16686, or a page with {trace_id} in its "
            "address; else AGENTRT_TRACE_URL and OTEL_* say where.",
        ),
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the report here.")
    ] = None,
    folder: Folder = None,
) -> int:
    """Open a run in a Jaeger UI that has it, else write its report and open that.

    Its address or path is printed too. Without a display nothing is opened.
    """
    from agentrt.cli.trace_files import find, runs_folder
    from agentrt.telemetry.reading import read

    path = find(run, folder or runs_folder())
    trace = read(path)[0]
    address = "" if out is not None else page_of(trace, viewer, path)
    if address:
        sys.stdout.write(f"{address}\n")
        show(address)
        return 0
    page = report_of(trace, path, out)
    sys.stdout.write(f"{page}\n")
    show(page.resolve().as_uri())
    return 0


def page_of(trace: Trace, viewer: str, path: Path) -> str:
    """Address of the trace in a viewer; "" if none is known, or if it does not have the trace.

    Raises:
        EngineUnavailable: The viewer that was given does not answer.
    """
    known = viewer or known_viewer(os.environ)
    if not known or _TRACE_ID in known:
        return known.replace(_TRACE_ID, trace.trace_id)
    base = base_of(known)
    if has_trace(base, trace.trace_id, is_given=bool(viewer)):
        return f"{base}/trace/{trace.trace_id}"
    note = f"{base} does not have this run: choose Upload in {base}/search and give it {path}\n"
    sys.stderr.write(note)
    return ""


def known_viewer(environment: Mapping[str, str]) -> str:
    """The viewer that the environment names, or a Jaeger beside its collector; "" if none."""
    from agentrt.telemetry.settings import jaeger_of, settings_of

    settings = settings_of(environment)
    if settings.viewer:
        return settings.viewer
    return jaeger_of(settings.endpoint)


def base_of(address: str) -> str:
    """Address of a Jaeger UI without the paths of its pages.

    Raises:
        UsageError: The text is no address of a page.
    """
    if not address.startswith(("http://", "https://")):
        raise UsageError(
            f"{address!r} is no address of a viewer",
            hint="give --viewer http://HOST:16686, or an address with {trace_id} in it",
        )
    return address.rstrip("/").removesuffix("/search").rstrip("/")


def has_trace(base: str, trace_id: str, *, is_given: bool) -> bool:
    """Whether a Jaeger has a trace, by its own API.

    Raises:
        EngineUnavailable: No answer came, and the address is from the command line.
    """
    import httpx

    try:
        answer = httpx.get(f"{base}/api/traces/{trace_id}", timeout=_TIMEOUT_S)
        return answer.status_code == httpx.codes.OK and bool(answer.json().get("data"))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if is_given:
            raise EngineUnavailable(
                f"no Jaeger answers at {base}: {error}",
                hint="start it, or leave --viewer out for a report",
                where="the command line",
            ) from None
        return False
    except (ValueError, AttributeError):
        return False  # an answer, but not Jaeger's


def report_of(trace: Trace, file: Path, out: Path | None) -> Path:
    """Write the report of a run; returns its file.

    Args:
        trace: Trace of the run.
        file: File of the trace, with the transcript beside it.
        out: File of the report; None takes one in the state folder.

    Raises:
        UsageError: The report cannot be written, or the trace does not hold the run's graph.
    """
    from agentrt.cli.report import report_path, write_report
    from agentrt.cli.transcripts import transcript_beside
    from agentrt.telemetry.recorded_run import run_record_of

    record = run_record_of(trace)
    path = report_path(str(out), "--out") if out is not None else None
    if path is None:
        place = state_folder(os.environ) / "reports"
        make_private_folder(place)
        path = place / f"{trace.trace_id}.html"
    write_report(path, record, transcript_beside(file, record.run_id))
    if out is None:
        remove_old(path.parent)
    return path


def remove_old(folder: Path) -> None:
    """Keep the newest reports of a folder of our own."""
    reports = sorted(folder.glob("*.html"), key=lambda one: one.stat().st_mtime, reverse=True)
    for path in reports[MOST_REPORTS:]:
        path.unlink(missing_ok=True)


def show(address: str) -> None:
    """Open an address in a browser if there is a display."""
    import webbrowser

    if not has_display(os.environ, sys.platform):
        sys.stderr.write("there is no display: open it on another machine, or set BROWSER\n")
    elif not webbrowser.open(address):
        sys.stderr.write("no browser could be started\n")


def has_display(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser of its own window can be started."""
    if platform in ("darwin", "win32"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
