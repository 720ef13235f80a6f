"""Flags of `agentrt run`: those of every run, and those of the program itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

from agentrt.base.config import Device
from agentrt.base.engine_selection import EngineSelection
from agentrt.cli import target as targets
from agentrt.cli.parameters import Parameter, bare, is_many, metavar, parameters_of
from agentrt.cli.settings import RunSettings, policy_of, seconds, trace_target

Target = Annotated[
    str, typer.Argument(metavar="FILE[:FN]", help="A Python file, and a program in it.")
]
Args = Annotated[
    str | None,
    typer.Option("--args", metavar="JSON|@FILE|-", help="The arguments as one JSON object."),
]
Batch = Annotated[
    Path | None, typer.Option("--batch", metavar="JSONL", help="One run a line of this file.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, help="Most runs at once, with --batch.")
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine", metavar="URL|embedded", envvar="AGENTRT_ENGINE", help="What serves the model."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="PATH",
        envvar="AGENTRT_MODEL",
        help="A checkpoint directory; with a URL, the model's name there.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", metavar="env:NAME", help="The variable with the engine's key."),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device", metavar="[cpu|cuda]", envvar="AGENTRT_DEVICE", help="Of the embedded engine."
    ),
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="SECONDS", help="Most time for a run: 2, 1.5s, 800ms."),
]
Tenant = Annotated[
    str,
    typer.Option(
        "--tenant", metavar="NAME", envvar="AGENTRT_TENANT", help="Who pays; tenants share evenly."
    ),
]
Priority = Annotated[
    int, typer.Option("--priority", metavar="N", help="Above, or below 0, other runs of a tenant.")
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="[rwa|plas|lpm|fcfs]",
        envvar="AGENTRT_POLICY",
        help="Which run goes first: what needs least more, had least, is cached, came first.",
    ),
]
Speculate = Annotated[
    bool,
    typer.Option(
        "--speculate",
        help="Call tools ahead that change nothing, where past runs say what is next.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Makes sampling repeatable.")]
Trace = Annotated[
    str,
    typer.Option(
        "--trace",
        metavar="jaeger|otlp=URL|file=DIR|off",
        envvar="AGENTRT_TRACE",
        help="Where spans go: a file for Jaeger in traces/runs, a collector, another folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one agentrt.run/1 object a run.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="The result and errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Bars over time, and tracebacks.")]
Bounded = Annotated[
    bool,
    typer.Option("--bound", help="How fast a run could have been, and what it lost to what."),
]


def settings_of(
    target: Target,
    args: Args = None,
    batch: Batch = None,
    concurrency: Concurrency = 8,
    engine: Engine = "embedded",
    model: Model = "",
    api_key: ApiKey = None,
    device: DeviceName = "cpu",
    deadline: Deadline = None,
    tenant: Tenant = "",
    priority: Priority = 0,
    policy: PolicyName = "rwa",
    speculate: Speculate = False,
    seed: Seed = None,
    trace: Trace = "jaeger",
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    bound: Bounded = False,
    **own: Any,
) -> RunSettings:
    """Run a program. Its own parameters are flags too: agentrt run FILE --help shows them."""
    return RunSettings(
        target=target,
        given={name.removeprefix(OWN): one for name, one in own.items() if one not in (None, [])},
        args=args,
        batch=batch,
        concurrency=concurrency,
        selection=EngineSelection(engine, model, api_key, cast(Device, device)),
        deadline_s=seconds(deadline) if deadline is not None else None,
        tenant=tenant,
        priority=priority,
        policy=policy_of(policy),
        speculate=speculate,
        seed=seed,
        trace=trace_target(trace),
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        bound=bound,
    )


OWN = "own_"
FIXED = tuple(
    one
    for one in inspect.signature(settings_of).parameters.values()
    if one.kind is not one.VAR_KEYWORD
)
FORMS = get_type_hints(settings_of, include_extras=True)
SWITCHES = {"-q", "--quiet", "-v", "--verbose", "--json", "--speculate", "--bound", "-h", "--help"}


def flags_in(form: Any) -> list[str]:
    """The flags in an annotation; typer keeps the first apart from the others."""
    (info,) = form.__metadata__
    return [one for one in (info.default, *(info.param_decls or ())) if str(one).startswith("-")]


FLAGS = tuple(flag for one in FIXED for flag in flags_in(FORMS[one.name]))


def run_command(target: str) -> Callable[..., int]:
    """The `run` command with the flags of the program in `target`, if any.

    Raises:
        UsageError: There is no such program. Errors of its file pass through.
    """
    program = targets.find(target) if target else None
    own = parameters_of(program) if program is not None else ()

    def command(**flags: Any) -> int:
        from agentrt.cli.run import execute

        return execute(program, own, settings_of(**flags))

    title = program_title(program) if program is not None else settings_of.__doc__
    options = [option(one, panel_of(program)) for one in own if one.flag not in FLAGS]
    fixed = [one.replace(annotation=FORMS[one.name], kind=one.KEYWORD_ONLY) for one in FIXED]
    signature = inspect.Signature([*fixed, *options])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    command.__doc__ = title
    return command


def option(parameter: Parameter, panel: str) -> inspect.Parameter:
    """A program's parameter for typer. Its text is converted later, with the parameter's type."""
    plain = bare(parameter.form)
    flag = f"{parameter.flag}/--no-{parameter.flag[2:]}" if plain is bool else parameter.flag
    needed = "(required) " if parameter.required else ""
    info = typer.Option(
        flag,
        help=needed + parameter.text,
        metavar=None if plain is bool else metavar(parameter.form),
        show_default=False if parameter.required else default_text(parameter),
        rich_help_panel=panel,
    )
    form: Any = str | None
    if plain is bool:
        form = bool | None
    elif is_many(parameter.form):
        form = list[str] | None
    return inspect.Parameter(
        OWN + parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[form, info],
    )


def default_text(parameter: Parameter) -> str:
    """A default for help; long values are truncated."""
    value = parameter.default
    if isinstance(value, Path) and value.is_absolute() and value.is_relative_to(Path.cwd()):
        value = value.relative_to(Path.cwd())
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def panel_of(program: Any) -> str:
    """Heading of a program's own flags."""
    return f"Parameters of {inspect.unwrap(program).__name__}" if program is not None else ""


def program_title(program: Any) -> str:
    """Help of one program: its docstring up to the sections, and flags that are taken."""
    from agentrt.tools.docstring import read_docstring

    function = inspect.unwrap(program)
    doc = read_docstring(function.__doc__).description or f"Run {function.__name__}."
    taken = [one.name for one in parameters_of(program) if one.flag in FLAGS]
    if taken:
        names = ", ".join(f"`{name}`" for name in taken)
        doc += f"\n\nThe flag of {names} means something else to agentrt run: use --args."
    return doc


def target_in(argv: Sequence[str]) -> str:
    """FILE[:FN] in the arguments of `agentrt run`, before they are parsed; "" if absent."""
    rest = list(argv[1:]) if argv[:1] == ["run"] else []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            return word
        name, equals, _ = word.partition("=")
        if name not in FLAGS and name not in SWITCHES:
            return ""  # reported by the parser
        if name not in SWITCHES and not equals and rest:
            rest.pop(0)
    return ""
