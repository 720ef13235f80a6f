"""`agentrt`: its commands, and the conversion of a program's parameters to flags."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from agentrt.base.errors import UsageError
from agentrt.base.exception_groups import root_of
from agentrt.cli.completion import completed_words, engine_names, joined_at_colons
from agentrt.cli.draft_flags import DraftModel
from agentrt.cli.engines import engines
from agentrt.cli.error_report import INTERRUPTED, exit_code_of, helpful_traceback, report
from agentrt.cli.format_flags import Activations, ExpertMemory, KvCacheDtype, Weights
from agentrt.cli.held_interrupt import hold_interrupts_of_torch
from agentrt.cli.late_commands import CommandGroup, add_late_commands
from agentrt.cli.run_flags import FLAGS, run_command, target_in
from agentrt.cli.run_help import RunCommand
from agentrt.cli.serve import serve
from agentrt.cli.standard_streams import StandardOutputError, open_standard_streams


def main() -> NoReturn:
    """Entry point: exits with 0, or with the code of the error (see `agentrt run --help`)."""
    open_standard_streams()
    hold_interrupts_of_torch()
    code = answer(sys.argv[1:])
    with suppress(StandardOutputError):
        sys.stdout.flush()  # what a command wrote before its error
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # An abandoned question still reads in its thread; the interpreter would wait for it.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def answer(argv: Sequence[str]) -> int:
    """Run the command of the arguments; returns the exit code and reports errors in three lines."""
    program_folder: Path | None = None
    try:
        with joined_at_colons(os.environ):
            words = argv or completed_words(os.environ)
            target = target_in(words)
            if target:
                program_folder = Path(target.rpartition(":")[0] or target).resolve().parent
            run = run_command(target, completes=not argv)
            app = application(run, called=words[0] if words else "")
            code = app(args=list(argv), prog_name="agentrt", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands, as `agentrt trace`
            typer.echo(error.format_message())
            return 0
        return complain(usage_error(error), None, verbose=False)
    except StandardOutputError as error:
        return complain_of_output(error)
    except (Exception, KeyboardInterrupt) as error:
        verbose = bool({"-v", "--verbose"} & set(argv))
        return complain(error, program_folder, verbose=verbose)


def application(run: Callable[..., int], *, called: str = "") -> typer.Typer:
    """The commands; `run` has the flags of its program.

    Args:
        run: The `run` command.
        called: The command of this process; those of `late_commands` are imported if called.
    """
    app = typer.Typer(
        cls=CommandGroup,
        help="A runtime for agent programs.",
        rich_markup_mode=None,  # its columns leave help little room, and its Markdown takes 90 ms
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(greet)
    app.command("run", cls=RunCommand, epilog="Exit codes: " + EXIT_CODES)(run)
    app.command("doctor")(doctor)
    app.command("engines")(engines)
    app.command("serve")(serve)
    add_late_commands(app, called)
    return app


OF_EMBEDDED = ("--weights", "--activations", "--kv-cache-dtype")
EXIT_CODES = (
    "0 done; 1 the program or a tool raised; 2 wrong flag, argument or file; 3 no engine or model; "
    "4 an output cannot be made to fit its type; 5 deadline or limit; 130 interrupted; "
    "143 terminated."
)


def greet(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A runtime for agent programs: it sees the program, not requests."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"agentrt {installed('agentrt')}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


def doctor(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="PATH",
            envvar="AGENTRT_MODEL",
            help="Try this model directory, or this model of --engine.",
        ),
    ] = "",
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="NAME|URL",
            help="Look at this engine of agentrt.toml, or server. No request is paid for.",
            autocompletion=engine_names,
        ),
    ] = "",
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", metavar="env:NAME", help="The variable with the engine's key."),
    ] = None,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="With --engine: find out by requests what it enforces."),
    ] = False,
    weights: Weights = "",
    activations: Activations = "",
    kv_cache_dtype: KvCacheDtype = "",
    expert_memory: ExpertMemory = "",
    draft_model: DraftModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Say what is installed and whether the engine starts, or whether a server answers."""
    if engine not in ("", "embedded"):
        from agentrt.cli.engine_check import print_check

        for flag, given in zip(OF_EMBEDDED, (weights, activations, kv_cache_dtype), strict=True):
            if given:
                raise UsageError(
                    f"{flag} is for the embedded engine", hint="leave it, or leave --engine"
                )
        return print_check(engine, model, api_key, probe=probe, as_json=as_json)
    for flag, is_given in {"--probe": probe, "--api-key": api_key is not None}.items():
        if is_given:
            raise UsageError(
                f"{flag} is for an engine with an address", hint="give --engine NAME|URL too"
            )
    from agentrt.cli.doctor import print_report

    formats = (weights, activations, kv_cache_dtype, expert_memory)
    return print_report(model, *formats, draft_model=draft_model, as_json=as_json)


def usage_error(error: typer.TyperException) -> UsageError:
    """Usage error of the parser, with the closest flag or command as a hint."""
    message = error.format_message().partition(" (Possible options")[0]
    what, _, meant = message.replace("Value error, ", "").partition(" Did you mean ")
    option = str(getattr(error, "option_name", ""))
    choice = re.search(r"'([^']*)' is not one of (.+)", what)
    if choice and (near := get_close_matches(choice[1], re.findall(r"'([^']*)'", choice[2]), n=1)):
        meant = near[0]
    context = getattr(error, "ctx", None)
    known = _flags_of(context) if context is not None else list(FLAGS)
    begun = [flag for flag in known if option and flag.startswith(option)]
    close = begun if len(begun) == 1 else get_close_matches(option, known, n=1, cutoff=0.7)
    if option in known or what.rstrip(".").endswith("requires an argument"):
        hint = f"give a value behind {option}"
    elif close or meant:
        hint = f"did you mean {close[0] if close else meant.strip('?').replace(chr(39), '')}?"
    else:
        hint = help_for(context.command_path if context else "agentrt")
    return UsageError(what.rstrip("."), hint=hint)


def _flags_of(context: Any) -> list[str]:
    """The flags of the command that was called."""
    return [flag for one in context.command.params for flag in one.opts if flag.startswith("-")]


def help_for(command: str) -> str:
    """Hint at the help of a command, for example of `agentrt trace show`."""
    if command == "agentrt run":
        return "agentrt run FILE --help shows the flags; a program's own stand after FILE"
    return f"{command} --help shows what it takes"


def complain_of_output(error: StandardOutputError) -> int:
    """Say why standard output cannot be written, unless its reader has seen enough."""
    if error.errno == errno.EPIPE:
        return 1
    told = UsageError(
        f"the result cannot be written to standard output: {error.strerror}",
        hint="look at where the output goes",
    )
    return complain(told, None, verbose=False)


def complain(error: BaseException, folder: Path | None, *, verbose: bool) -> int:
    """Print an error on standard error; returns the exit code."""
    if verbose:
        sys.stderr.write(helpful_traceback(error, folder))
    if isinstance(root_of(error), KeyboardInterrupt):
        typer.echo("interrupted", err=True)
        return INTERRUPTED
    typer.echo(report(error, folder=folder), err=True)
    return exit_code_of(error)
