"""Flags of `agentrt run`: those of every run, and those of the program itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from agentrt.cli import target as targets
from agentrt.cli.completion import parameters_in
from agentrt.cli.parameters import Parameter, bare, is_many, metavar, parameters_of
from agentrt.cli.results_alone import results_alone
from agentrt.cli.settings import RunSettings

TITLE = "Run a program. Its own parameters are flags too: agentrt run FILE --help shows them."
OWN = "own_"
FORMS = {
    name: form
    for name, form in get_type_hints(RunSettings, include_extras=True).items()
    if get_origin(form) is Annotated
}
SWITCHES = {
    *("-q", "--quiet", "-v", "--verbose", "--json", "--speculate", "--bound", "--show"),
    *("-h", "--help"),
}


def flags_in(form: Any) -> list[str]:
    """The flags in an annotation; typer keeps the first apart from the others."""
    (info,) = form.__metadata__
    return [one for one in (info.default, *(info.param_decls or ())) if str(one).startswith("-")]


FLAGS = tuple(flag for form in FORMS.values() for flag in flags_in(form))


def run_command(target: str, *, completes: bool = False) -> Callable[..., int]:
    """The `run` command with the flags of the program in `target`, if any.

    Args:
        target: `FILE[:FN]`; "" for the command without a program.
        completes: Whether a shell asks for its flags. Then the file is read, but not run.

    Raises:
        UsageError: There is no such program. Errors of its file pass through.
    """
    program = None
    own: Sequence[Parameter] = ()
    if target and completes:
        own = parameters_in(*targets.split(target))
    elif target:
        with results_alone():
            program = targets.find(target)
        own = parameters_of(program)

    def command(**flags: Any) -> int:
        from agentrt.cli.run import execute

        fixed = {name: flags.pop(name) for name in FORMS}
        given = {
            name.removeprefix(OWN): value
            for name, value in flags.items()
            if value not in (None, [])
        }
        return execute(program, own, RunSettings(**fixed, given=given))

    title = program_title(program) if program is not None else TITLE
    options = [option(one, panel_of(program)) for one in own if one.flag not in FLAGS]
    known = inspect.signature(RunSettings).parameters
    fixed = [
        known[name].replace(annotation=form, kind=inspect.Parameter.KEYWORD_ONLY)
        for name, form in FORMS.items()
    ]
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
