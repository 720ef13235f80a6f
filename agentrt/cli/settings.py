"""Settings of one `agentrt run`."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from agentrt import embedded
from agentrt.base.config import REPLAY_POLICIES, Device, PolicyName
from agentrt.base.engine_selection import (
    EngineSelection,
    EngineSettings,
    speculate_tokens,
    with_drafts,
)
from agentrt.base.engines.engine_file import engine_file
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import with_formats
from agentrt.base.record import record
from agentrt.cli.completion import engine_names, program_names
from agentrt.cli.draft_flags import DraftModel, SpeculateTokens
from agentrt.cli.format_flags import Activations, Adapters, ExpertMemory, KvCacheDtype, Weights
from agentrt.cli.limits import GivenLimits, given_limits, seconds

if TYPE_CHECKING:
    from agentrt.base.content_config import ContentConfig


@record
class TraceTarget:
    """Destination of spans.

    Attributes:
        kind: `jaeger` sends to the collector in `OTEL_*`, else writes a file; `file` always writes
            a file; `otlp` sends; `off` does neither.
        url: Address of the collector for `otlp`; "" leaves it to `OTEL_*`.
        folder: Folder of files; None leaves it to `runs_folder`.
    """

    kind: Literal["jaeger", "file", "otlp", "off"] = "jaeger"
    url: str = ""
    folder: Path | None = None


@record
class RunSettings:
    """Settings of one `agentrt run`, each with the flag that gives it.

    Attributes:
        target: `FILE[:FN]` as given.
        args: Value of `--args`, or None.
        batch: File of inputs, or None for one run.
        resume: Output of an earlier batch to go on with, or None.
        again: Numbers of the records to run again, with `resume`.
        concurrency: Maximum number of concurrent runs, with `batch`.
        engine: URL, name of an engine of `agentrt.toml`, or "embedded"; "" takes the `default` role
            of that file, or else the embedded engine.
        model: Directory for the embedded engine, name for a remote one; "" takes the default.
        api_key: `env:NAME`, the variable that holds the key of a remote engine, or None.
        device: Device of the embedded engine.
        deadline: Deadline of each run as given, or None.
        limit: Limits as given, each `NAME=N`, or None.
        tenant: Tenant of the runs, for fair share.
        priority: Priority of each run relative to others of the tenant.
        policy: Name of the scheduling policy of the engine.
        speculate: Whether tools without effects are called ahead, and prompts computed ahead.
        weights: Format of the embedded engine's weights, as given; "" leaves it to the file.
        activations: Format of what they multiply, likewise.
        kv_cache_dtype: Type of the embedded engine's cached keys and values, likewise.
        expert_memory: Most memory for experts of the embedded engine's model, likewise.
        adapter: LoRA adapters as given, each `NAME=DIR`, or None.
        speculate_tokens: Speculative decoding of the embedded engine, as given; None leaves it
            to the file.
        draft_model: Checkpoint directory of a draft model, or None.
        seed: Seed of each run.
        trace: Destination of spans as given.
        content: Choice of what is kept of prompts and answers, as given; "" leaves it to the file.
        show: Print what was said in each run.
        record: File for a recording of the runs, or None.
        as_json: One `agentrt.run/1` object a run on standard output.
        quiet: Nothing but errors on standard error.
        verbose: Also print bars over time and tracebacks.
        bound: Print the lower bound of each run's latency.
        report: File of the run's report, or "".
        given: The program's own flags, by parameter.
    """

    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:FN]",
            help="A Python file, and a program in it.",
            autocompletion=program_names,
        ),
    ]
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON|@FILE|-", help="The arguments as one JSON object."),
    ] = None
    batch: Annotated[
        Path | None, typer.Option("--batch", metavar="JSONL", help="One run a line of this file.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Add to this output of an earlier --batch the rows that it lacks.",
        ),
    ] = None
    again: Annotated[
        list[int] | None,
        typer.Option(
            "--again",
            metavar="LINE",
            help="With --resume: run this line of the batch again (may be repeated).",
        ),
    ] = None
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Most runs at once, with --batch.")
    ] = 8
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="NAME|URL|embedded",
            envvar="AGENTRT_ENGINE",
            help="What serves the model: an engine of agentrt.toml, an address, or this process.",
            autocompletion=engine_names,
        ),
    ] = ""
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="PATH",
            envvar="AGENTRT_MODEL",
            help="A checkpoint directory; with a URL, the model's name there.",
        ),
    ] = ""
    api_key: Annotated[
        str | None,
        typer.Option("--api-key", metavar="env:NAME", help="The variable with the engine's key."),
    ] = None
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="[cpu|cuda]",
            envvar="AGENTRT_DEVICE",
            help="Of the embedded engine.",
        ),
    ] = "cpu"
    deadline: Annotated[
        str | None,
        typer.Option("--deadline", metavar="SECONDS", help="Most time for a run: 2, 1.5s, 800ms."),
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=N",
            envvar="AGENTRT_LIMITS",
            help="Of runs or of a server: max_nodes=500000, max_cost=0.50 (may be repeated).",
        ),
    ] = None
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            metavar="NAME",
            envvar="AGENTRT_TENANT",
            help="Tenant that is charged; tenants share evenly.",
        ),
    ] = ""
    priority: Annotated[
        int,
        typer.Option("--priority", metavar="N", help="Above, or below 0, other runs of a tenant."),
    ] = 0
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="[rwa|plas|lpm|fcfs]",
            envvar="AGENTRT_POLICY",
            help="Which run goes first: what needs least more, had least, is cached, came first.",
        ),
    ] = "rwa"
    speculate: Annotated[
        bool,
        typer.Option(
            "--speculate",
            help="Call tools and compute prompts ahead, where past runs say what is next.",
        ),
    ] = False
    weights: Weights = ""
    activations: Activations = ""
    kv_cache_dtype: KvCacheDtype = ""
    expert_memory: ExpertMemory = ""
    adapter: Adapters = None
    speculate_tokens: SpeculateTokens = None
    draft_model: DraftModel = None
    seed: Annotated[int | None, typer.Option("--seed", help="Makes sampling repeatable.")] = None
    trace: Annotated[
        str,
        typer.Option(
            "--trace",
            metavar="jaeger|otlp=URL|file=DIR|off",
            envvar="AGENTRT_TRACE",
            help="Where spans go: a file for Jaeger, a collector, a folder of files, nowhere.",
        ),
    ] = "jaeger"
    content: Annotated[
        str,
        typer.Option(
            "--content",
            metavar="transcript|spans|off",
            envvar="AGENTRT_CONTENT",
            help="What is kept of prompts and answers: a file beside the trace, also spans, none.",
        ),
    ] = ""
    show: Annotated[
        bool, typer.Option("--show", help="Print what was said: prompts, answers, tool calls.")
    ] = False
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Record prompts, answers and times, for tests to replay (docs/testing.md).",
        ),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one agentrt.run/1 object a run.")
    ] = False
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="The result and errors only.")] = (
        False
    )
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Bars over time, and tracebacks.")
    ] = False
    bound: Annotated[
        bool,
        typer.Option("--bound", help="How fast a run could have been, and what it lost to what."),
    ] = False
    report: Annotated[
        str,
        typer.Option(
            "--report", metavar="FILE", help="Write the run as one HTML page, for people."
        ),
    ] = ""
    given: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.resume is not None and self.batch is None:
            raise UsageError("--resume goes on with a batch", hint="give --batch too")
        if self.again and self.resume is None:
            raise UsageError("--again replaces rows of a batch", hint="give --resume FILE too")
        if self.show and self.quiet:
            raise UsageError("--show prints what --quiet leaves out", hint="give one of them")
        if self.report and self.batch is not None:
            raise UsageError(
                "--report is for one run", hint="agentrt trace report RUN writes that of a record"
            )
        if self.report:
            from agentrt.cli.report import report_path  # `agentrt --help` needs none of it

            report_path(self.report, "--report")
        # A wrong text is refused here.
        _ = self.deadline_s, self.policy_name, self.trace_target, self.content_config
        is_remote = isinstance(self._engine, RemoteEngineConfig)
        for_embedded = {
            "--weights": bool(self.weights),
            "--activations": bool(self.activations),
            "--kv-cache-dtype": bool(self.kv_cache_dtype),
            "--expert-memory": bool(self.expert_memory),
            "--adapter": bool(self.adapter),
            "--speculate-tokens": self.speculate_tokens is not None
            and speculate_tokens(self.speculate_tokens) != "off",
            "--draft-model": self.draft_model is not None,
        }
        for flag, is_given in for_embedded.items():
            if is_given and is_remote:
                raise UsageError(
                    f"{flag} is for the embedded engine", hint="leave it, or leave --engine"
                )
        _ = self.engine_choice
        if self.limits.of_servers and not is_remote:
            raise UsageError(
                f"--limit {min(self.limits.of_servers)} is for an engine with an address",
                hint="give its address by --engine URL too, or leave it",
            )

    @property
    def selection(self) -> EngineSelection:
        """Engine and model."""
        return EngineSelection(self.engine, self.model, self.api_key, cast(Device, self.device))

    @property
    def deadline_s(self) -> float | None:
        """Deadline of each run, or None."""
        return None if self.deadline is None else seconds(self.deadline)

    @property
    def limits(self) -> GivenLimits:
        """Limits of runs and of the server."""
        return given_limits(self.limit or ())

    @property
    def policy_name(self) -> PolicyName:
        """Scheduling policy of the engine."""
        return policy_of(self.policy)

    @property
    def trace_target(self) -> TraceTarget:
        """Destination of spans."""
        return trace_target(self.trace)

    @property
    def content_config(self) -> ContentConfig:
        """Settings of what is kept of prompts and answers."""
        from agentrt.base.engines.kept_content import content_config

        return content_config(os.environ, self.content)

    @property
    def engine_choice(self) -> EngineSettings:
        """Settings of the engine."""
        if isinstance(self._engine, RemoteEngineConfig):
            return self._engine
        engine = with_formats(self._engine, self.weights, self.activations, self.kv_cache_dtype)
        if self.expert_memory:
            from agentrt.base.expert_memory import with_expert_memory  # few runs bound it

            engine = with_expert_memory(engine, self.expert_memory)
        if self.adapter:
            from agentrt.base.adapter_choice import with_adapters  # few runs name one

            engine = with_adapters(engine, self.adapter)
        return with_drafts(engine, self.speculate_tokens, self.draft_model)

    @property
    def _engine(self) -> EngineSettings:
        """Settings of the engine without speculative decoding."""
        return self.selection.settings(engine_file(os.environ), embedded.path())


def policy_of(text: str) -> PolicyName:
    """A policy for real runs.

    Raises:
        UsageError: There is no policy of that name, or it is for replays.
    """
    for name in get_args(PolicyName):
        if name == text and name not in REPLAY_POLICIES:
            return cast(PolicyName, name)
    replays = "is for replays, which know what their runs will need"
    why = replays if text in REPLAY_POLICIES else "is no policy"
    raise UsageError(f"--policy {text!r} {why}", hint="give rwa, plas, lpm or fcfs")


def trace_target(text: str) -> TraceTarget:
    """Destination of spans: `jaeger`, `otlp`, `otlp=URL`, `file=DIR` or `off`.

    Raises:
        UsageError: The text is anything else.
    """
    kind, equals, rest = text.partition("=")
    if kind == "otlp" and (rest.startswith(("http://", "https://")) or not equals):
        return TraceTarget("otlp", url=rest)
    if kind == "file" and rest:
        return TraceTarget("file", folder=Path(rest))
    if kind in ("jaeger", "off") and not equals:
        return TraceTarget("jaeger" if kind == "jaeger" else "off")
    raise UsageError(
        f"--trace {text!r} names no place for traces",
        hint="give jaeger, otlp=http://HOST:4318, file=DIR or off",
    )
