"""The engine and the model of a run, as flags and environment name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast, get_args

from agentrt.base.config import Device, EngineConfig, SpeculateTokens
from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED, EngineFile
from agentrt.base.engines.remote_engine_config import FleetMember, RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.record import record

EngineSettings = EngineConfig | RemoteEngineConfig
"""Settings of an embedded engine or of a remote one."""


def speculate_tokens(text: str) -> SpeculateTokens:
    """A setting of speculative decoding: `auto`, `off` or a number of tokens.

    Raises:
        UsageError: The text is anything else.
    """
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            f"--speculate-tokens {text!r} is no number of tokens", hint="give auto, off or 8"
        )
    return int(text)


def with_drafts(
    config: EngineConfig, speculate: str | None, draft_model: Path | None
) -> EngineConfig:
    """Settings of an engine with its speculative decoding.

    Args:
        config: Settings of the engine.
        speculate: Setting of `speculate_tokens`, as given; None leaves that of `config`.
        draft_model: Checkpoint directory of a draft model; None leaves that of `config`, unless
            `speculate` turns drafts off.

    Raises:
        UsageError: They are no setting, or do not go together.
    """
    if speculate is not None:
        tokens = speculate_tokens(speculate)
        kept = None if tokens in ("off", 0) else config.draft_model
        config = replace(config, speculate_tokens=tokens, draft_model=kept)
    if draft_model is not None:
        config = replace(config, draft_model=draft_model)
    check_draft_model(config)
    return config


def check_draft_model(config: EngineConfig) -> None:
    """Check that a draft model has something to draft.

    Raises:
        UsageError: Drafts are off.
    """
    if config.draft_model is not None and config.speculate_tokens in ("off", 0):
        raise UsageError(
            "a draft model (--draft-model) drafts nothing with --speculate-tokens off",
            hint="give --speculate-tokens auto too, or leave the draft model",
        )


@record
class EngineSelection:
    """The engine and the model of a run, as flags and environment name them.

    Attributes:
        engine: URL of a server, name of an engine of `agentrt.toml`, several of them with commas
            between them, or `embedded`; "" is the `default` role of that file, or else the embedded
            engine.
        model: Checkpoint directory for the embedded engine or `embedded`, name for a server; "" is
            the default.
        api_key: `env:NAME`, the variable that holds the server's key, or None.
        device: Device of the embedded engine.

    Raises:
        UsageError: The device is unknown.
    """

    engine: str = ""
    model: str = ""
    api_key: str | None = None
    device: Device = "cpu"

    def __post_init__(self) -> None:
        if self.device not in get_args(Device):
            raise UsageError(f"device {self.device!r} is no device", hint="give cpu or cuda")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> EngineSelection:
        """The selection by `AGENTRT_ENGINE`, `AGENTRT_MODEL` and `AGENTRT_DEVICE`.

        Raises:
            UsageError: A value is none of those that are known.
        """
        return cls(
            environ.get("AGENTRT_ENGINE") or "",
            environ.get("AGENTRT_MODEL") or "",
            device=cast(Device, environ.get("AGENTRT_DEVICE") or "cpu"),
        )

    def overridden(
        self, engine: str | None, model: str | None, api_key: str | None, device: Device | None
    ) -> EngineSelection:
        """The selection with every value that is given in place of its own.

        Another engine begins without the model and key of this one.
        """
        base = self if engine is None or engine == self.engine else EngineSelection(engine)
        return replace(
            base,
            model=base.model if model is None else model,
            api_key=base.api_key if api_key is None else api_key,
            device=device or self.device,
        )

    def settings(self, file: EngineFile, default_model: Path) -> EngineSettings:
        """Settings of the engine.

        Args:
            file: Engines by name.
            default_model: Directory of the embedded engine's model if none is named.

        Raises:
            UsageError: The engine is no URL and no name, or a key is given without a server.
        """
        engine = self.engine or file.roles.get(DEFAULT_ROLE, EMBEDDED)
        if engine != EMBEDDED:
            return self._remote(named_engine(engine, file))
        if self.api_key is not None:
            raise UsageError(
                "a key of an engine (--api-key) is for an engine with an address",
                hint="give its address by --engine URL too, or leave it",
            )
        known = dict(file.embedded_formats)
        own = known.pop("model_path", default_model)
        return EngineConfig(
            named_model(self.model, default_model) if self.model else own,
            device=self.device,
            prices=file.embedded_prices,
            **known,
        )

    def _remote(self, config: RemoteEngineConfig) -> RemoteEngineConfig:
        """The engine with the model and key that are given beside it."""
        if self.model:
            config = replace(config, model=self.model)
        return config if self.api_key is None else replace(config, key=self.api_key)


def named_model(model: str, shipped: Path) -> Path:
    """The checkpoint directory or the GGUF file that a text names.

    Args:
        model: A path, or `embedded`, which is the model that ships unless there is such a path.
        shipped: Directory of the model that ships.

    Raises:
        UsageError: There is no such path, and the text is nearly `embedded`.

    Example:
        >>> named_model("models/qwen", Path("shipped"))
        PosixPath('models/qwen')
        >>> named_model("embedded", Path("shipped"))
        PosixPath('shipped')
    """
    path = Path(model).expanduser()
    if path.exists():
        return path
    if model == EMBEDDED:
        return shipped
    if get_close_matches(model, [EMBEDDED], cutoff=0.8):
        raise UsageError(f"there is no model {model!r}", hint=f"did you mean {EMBEDDED}?")
    return path


def named_engine(engine: str, file: EngineFile) -> RemoteEngineConfig:
    """The remote engine of a URL or a name; several with commas between them are a fleet.

    Raises:
        UsageError: The text is neither.
    """
    if "," in engine:
        return _fleet([one.strip() for one in engine.split(",")], file)
    if engine.startswith(("http://", "https://")):
        return RemoteEngineConfig(address=engine)
    return file.engine(engine)


def _fleet(given: list[str], file: EngineFile) -> RemoteEngineConfig:
    """The fleet of several URLs, or of URLs and names, with equal weights."""
    if not all(given):
        raise UsageError(
            f"engine {','.join(given)!r} has nothing between two commas",
            hint="give http://A:PORT,http://B:PORT",
        )
    engines = [named_engine(one, file) for one in given]
    if all(one.address and not one.name for one in engines):
        return RemoteEngineConfig(addresses=tuple(one.address for one in engines))
    return RemoteEngineConfig(members=tuple(map(FleetMember, engines)))
