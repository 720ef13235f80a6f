"""`agentrt kernels`: the native code of the CPU, compiled ahead of the first start."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentrt.base.output_file import check_output

kernels = typer.Typer(help="The native code of the CPU kernels.", no_args_is_help=True)


@kernels.command("build")
def build(
    processor: Annotated[
        str,
        typer.Option(
            "--processor",
            metavar="NAME",
            help="native: this machine's. x86-64-v3 or x86-64-v4: every one of that level.",
        ),
    ] = "native",
    folder: Annotated[
        str,
        typer.Option(
            "--folder", metavar="PATH", help="Compile into this folder; else into the user's cache."
        ),
    ] = "",
) -> int:
    """Compile the native code now, so that an engine starts without a compiler.

    A folder of an image is found through the variable AGENTRT_KERNELS. Name a level there, if the
    image runs on processors other than the one that makes it.
    """
    from agentrt.base.engine_extra import require_packages
    from agentrt.cli.progress_display import waiting

    require_packages("agentrt kernels")
    from agentrt.engine.ops.kernel_build import build_kernels

    root = Path(folder).expanduser().absolute() if folder else None
    if root is not None:
        check_output(root / "native.so", "--folder", makes_folders=True)
    with waiting("compiling the kernels"):
        path = build_kernels(processor, root)
    sys.stdout.write(f"{path}\n")
    if root is not None:
        sys.stderr.write(f"engines find it by AGENTRT_KERNELS={shlex.quote(str(root))}\n")
    return 0
