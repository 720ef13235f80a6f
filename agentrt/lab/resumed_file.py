"""Files with earlier plays: a command goes on with its own and refuses those of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.path_rules import output_file
from agentrt.lab.result_file import read_json

ReadT = TypeVar("ReadT")


@record
class ResumedFile:
    """The file of a command's plays; nothing is written to one that is refused.

    Attributes:
        schema: Schema of the file.
        hint: The way out of a wrong file.
    """

    schema: str
    hint: str

    def check(self, path: Path, flag: str) -> None:
        """Check a file before the work: it is not there yet, or holds the schema.

        Raises:
            UsageError: The file cannot be read or written, or holds something else.
        """
        output_file(path, flag)
        if path.exists():
            read_json(path, self.schema, self.hint)

    def read(self, path: Path, take: Callable[[dict[str, Any]], ReadT]) -> ReadT:
        """Read a file.

        Args:
            path: The file.
            take: Reads the content.

        Raises:
            UsageError: The file cannot be read, holds another schema, or is damaged.
        """
        found = read_json(path, self.schema, self.hint)
        try:
            return take(found)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"{path} is damaged: {type(error).__name__}: {error}", hint=self.hint
            ) from error
