"""Files of recorded text, and the sketches that readers fill with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.recorded.codebook import Codebook
from agentrt.lab.recorded.program import RecordedProgram, RecordedSketch
from agentrt.lab.workloads.data import read_rows
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES, Sizes


@record
class RecordSource:
    """Files of recorded text, and what sketches of programs need.

    Attributes:
        shape: Name of the shape.
        folder: Folder of the public files, under their names.
        codebook: Numbers of units.
        scale: Scale of the times of tools.
        seed: Seed of what no record has.
        sizes: Distributions of what no record has.
    """

    shape: str
    folder: Path
    codebook: Codebook
    scale: Scale
    seed: int = 0
    sizes: Sizes = field(default_factory=lambda: SIZES)

    def sketch(self, number: int) -> RecordedSketch:
        """An empty sketch of the program of a record."""
        return RecordedSketch(
            self.shape, number, self.codebook, self.scale, self.sizes, self.seed
        )  # fmt: skip

    def rows(self, name: str | Path) -> list[Any]:
        """Rows of a file of the folder, or of a path, each by the names of its columns.

        Raises:
            UsageError: The file cannot be read.
        """
        path = self.folder / name
        try:
            return list(read_rows(path))
        except OSError as error:
            raise UsageError(
                f"recorded programs of {self.shape} need {path}: {error.strerror}",
                hint="Give --data the folder of the public files",
            ) from error
        except ValueError as error:
            message = f"{path} is not as expected: {error}"
            raise UsageError(message, hint="Take it as its source has it") from error


RecordReader: TypeAlias = Callable[[RecordSource], Iterator[RecordedProgram]]
"""Reads the recorded programs of a shape, one after the other."""
