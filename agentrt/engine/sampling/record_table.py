"""A table of recorded outputs as a file: what each prompt was answered with, for replays.

A line of JSON for each output: `prompt` (`prompt_key` of its token ids), `seed` (null if the prompt
has one output only) and `output` (token ids).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.base.record import record

_KEY_BYTES = 16
_HINT = "Write the file with agentrt.engine.sampling.record_table"


@record
class RecordedOutput:
    """A recorded output.

    Attributes:
        prompt: `prompt_key` of its prompt.
        seed: Seed of a sample among those of an equal prompt; None if the prompt has one output.
        token_ids: Tokens of the output.
    """

    prompt: str
    seed: int | None
    token_ids: tuple[int, ...]


def prompt_key(token_ids: Sequence[int]) -> str:
    """Key of a prompt by its token ids."""
    return blake2b(array("I", token_ids).tobytes(), digest_size=_KEY_BYTES).hexdigest()


class RecordTable:
    """Recorded outputs by prompt and seed.

    Args:
        outputs: The outputs.

    Raises:
        UsageError: A prompt has several outputs and no seed that tells them apart.
    """

    def __init__(self, outputs: Iterable[RecordedOutput]) -> None:
        self._outputs: dict[str, dict[int | None, tuple[int, ...]]] = {}
        for one in outputs:
            of_prompt = self._outputs.setdefault(one.prompt, {})
            known = of_prompt.setdefault(one.seed, one.token_ids)
            if known != one.token_ids or (None in of_prompt and len(of_prompt) > 1):
                raise UsageError(
                    f"the prompt {one.prompt} has several recorded outputs",
                    hint="Give each output of a prompt a seed of its own",
                )

    def find(self, prompt: Sequence[int], seed: int) -> tuple[int, ...] | None:
        """The output of a prompt; of a sample that of its seed. None if there is no record."""
        found = self._outputs.get(prompt_key(prompt))
        return None if found is None else found.get(None) or found.get(seed)


def write_table(path: Path, outputs: Iterable[RecordedOutput]) -> None:
    """Write a table."""
    lines = (
        json.dumps({"prompt": one.prompt, "seed": one.seed, "output": one.token_ids})
        for one in outputs
    )
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_table(path: Path) -> RecordTable:
    """Read a table.

    Raises:
        UsageError: There is no such file, or it holds something else.
    """
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        outputs = [RecordedOutput(row["prompt"], row["seed"], tuple(row["output"])) for row in rows]
    except OSError as error:
        message = f"cannot read the recorded outputs {path}: {error.strerror}"
        raise UsageError(message, hint=_HINT) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} holds no recorded outputs: {error}", hint=_HINT) from error
    return RecordTable(outputs)
