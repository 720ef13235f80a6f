"""Flags of `agentrt bench sessions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from agentrt.base.record import record
from agentrt.lab.flags import JsonPath, Memory, Seed, Threads, factors
from agentrt.lab.number_bounds import MOST_TOKENS, NumberBounds
from agentrt.lab.path_rules import input_folder


@record
class SessionFlags:
    """Flags of `agentrt bench sessions`.

    Attributes:
        trace: Recordings (mini, default) or tasks separated by commas, or drawn for the published
            shape.
        engine: Engines separated by commas: own, ours, llama-server, transformers or a URL.
        shape: Shape of the model: embedded, tiny, half or another one of `bench engine`.
        window: Longest context; 0 takes 65,536 tokens, or that of the embedded model.
        rate: Agents a second, separated by commas, or auto; none plays one agent at a time.
        agents: Agents of each load.
        first: Seconds of the SLO within which a first token comes.
        speed: Tokens a second of the SLO.
        share: Share of turns that have to be within the SLO.
        most_turns: Turns of a session that are played; 0 plays all.
        most_output: Longest answer, to try the command; 0 keeps recorded lengths.
        waits: Factor on the times of tools.
        scale: Factors on the life size of drawn sessions, such as context=0.1,output=0.1,count=0.5.
        kv_tokens: Tokens that fit into the KV memory of each engine.
        slots: Requests that a server with fixed slots runs at once.
        dtype: Dtype of all engines, bfloat16 or float32.
        model: Name of the model at a URL; the first that it lists if none is given.
        api_key: Variable that holds the key of a URL, as env:NAME.
        codec: Folder with the tokenizer and template of the model at a URL; letters are counted if
            none is given.
        wheel_path: File to read recordings from, in place of the published one.
    """

    trace: str = "mini"
    engine: str = "own"
    shape: str = "tiny"
    window: Annotated[int, NumberBounds(1024, MOST_TOKENS, takes_zero=True).check] = 0
    rate: str = ""
    agents: Annotated[int, NumberBounds(2, 1_000_000).check] = 20
    first: float = 5.0
    speed: float = 20.0
    share: float = 0.95
    most_turns: int = 0
    most_output: int = 0
    waits: float = 1.0
    scale: Annotated[str, factors] = ""
    kv_tokens: Memory = 131_072
    slots: Annotated[int, NumberBounds(1, 4096).check] = 16
    dtype: str = "float32"
    threads: Threads = 0
    model: str = ""
    api_key: str = ""
    codec: Annotated[Path | None, input_folder] = None
    wheel_path: Path | None = None
    seed: Seed = 0
    json_path: JsonPath = None
