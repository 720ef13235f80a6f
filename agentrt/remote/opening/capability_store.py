"""Capabilities that probes found, kept on disk so that a server is probed once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.atomic_write import write_atomically
from agentrt.base.private_files import FILE_MODE, make_private_folder
from agentrt.base.user_folders import state_folder
from agentrt.remote.constraints.constraint_dialects import DIALECTS, dialects_named
from agentrt.remote.remote_server import MAY_BE_FIXED, RemoteServer

FOLDER = "capabilities"
KEPT_S = 7 * 24 * 3600.0
MAX_FILE_BYTES = 64 << 10


class CapabilityStore:
    """Files of capabilities, one for each server and model.

    A server is another one if its address, its model, its family or its context length is another.
    A file that cannot be read or written is as good as none: the server is probed.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> CapabilityStore | None:
        """The user's store; None if `AGENTRT_CAPABILITIES` is `off`. Else that names its folder."""
        given = environment.get("AGENTRT_CAPABILITIES", "")
        if given == "off":
            return None
        return cls(Path(given) if given else state_folder(environment) / FOLDER)

    def load(self, server: RemoteServer) -> RemoteServer | None:
        """The server with the capabilities that were found, or None if they are not known.

        Args:
            server: The server as its list of models shows it.
        """
        try:
            with self._path(server).open("rb") as opened:
                kept = json.loads(opened.read(MAX_FILE_BYTES))
            age_s = time.time() - kept["found_at_s"]
            if kept["probed"] != _probed() or not 0 <= age_s < KEPT_S:
                return None
            return replace(
                server.with_limit_field(str(kept["limit_field"])),
                fixed=frozenset(MAY_BE_FIXED) & frozenset(kept["fixed"]),
                proven=dialects_named(kept["proven"]),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def save(self, server: RemoteServer) -> None:
        """Keep the capabilities of a server."""
        kept: dict[str, Any] = {
            "where": server.where,
            "model": server.model,
            "probed": _probed(),
            "found_at_s": time.time(),
            "limit_field": server.fields["max_tokens"],
            "fixed": sorted(server.fixed),
            "proven": {kind: [one.name for one in found] for kind, found in server.proven.items()},
        }
        with suppress(OSError):
            make_private_folder(self._folder)
            write_atomically(self._path(server), json.dumps(kept).encode(), mode=FILE_MODE)

    def forget(self, server: RemoteServer) -> None:
        """Drop the capabilities of a server: it has refused a request made by them."""
        try:
            self._path(server).unlink(missing_ok=True)
        except OSError:
            return

    def _path(self, server: RemoteServer) -> Path:
        identity = [server.where, server.model, server.family, server.window_tokens]
        identity.append(server.protocol.name)
        name = sha256(canonical_json.dumps(identity).encode()).hexdigest()[:32]
        return self._folder / f"{name}.json"


def _probed() -> str:
    """Identity of the dialects that are probed: other ones are found out anew."""
    names = {kind: [one.name for one in dialects] for kind, dialects in DIALECTS.items()}
    return canonical_json.dumps(names)
