"""Interrupts while torch is imported wait until it is there.

Code in C++ imports modules of Python while torch starts. An interrupt that is raised there passes
through frames that may not be unwound, and the process aborts with signal 6.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, cast

from agentrt.cli.error_report import INTERRUPTED

if TYPE_CHECKING:
    from importlib.abc import Loader  # with ten modules, which --help would wait for

TORCH = "torch"


class HeldImport:
    """The loader of a module during whose execution interrupts wait.

    Args:
        loader: The module's own loader.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `Loader`."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which is left with its own loader."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with held_interrupts():
            self._loader.exec_module(module)


class TorchFinder:
    """Finds torch, and has interrupts wait while it is executed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname != TORCH:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", HeldImport(spec.loader))
        return spec


def hold_interrupts_of_torch() -> None:
    """Have interrupts wait for imports of torch from now on."""
    if not any(isinstance(one, TorchFinder) for one in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder())


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Hand the first interrupt of a block on at its end; a second one ends the process.

    In another thread than the main one, and if interrupts are ignored, nothing is changed.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    noted: list[FrameType | None] = []

    def note(_number: int, frame: FrameType | None) -> None:
        if noted:
            os.write(2, b"interrupted\n")
            os._exit(INTERRUPTED)
        noted.append(frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(signal.SIGINT, noted[0])
