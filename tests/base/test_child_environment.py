"""Processes that compute inherit no secret."""

import os
from pathlib import Path

import pytest

from agentrt.base.child_environment import child_environment
from agentrt.base.config import EngineConfig
from agentrt.engine.process.child import ProcessChild

SECRETS = (
    *(
        "OPENAI_API_KEY",
        "AGENTRT_API_KEY",
        "AGENTRT_SERVER_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
    ),
    *("HUGGING_FACE_HUB_TOKEN", "DATABASE_URL", "PGPASSWORD", "GITHUB_TOKEN", "NVIDIA_API_KEY"),
    *("XDG_SECRET", "TORCH_AUTH", "SSH_AUTH_SOCK", "OTEL_EXPORTER_OTLP_HEADERS"),
)
NEEDED = (
    *(
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TORCH_LOGS",
    ),
    *("CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "HF_HOME", "TRITON_INTERPRET", "LD_LIBRARY_PATH"),
    *("TOKENIZERS_PARALLELISM", "AGENTRT_ESTIMATES", "XDG_CACHE_HOME", "PYTHONHASHSEED"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_stay_behind(name: str) -> None:
    assert child_environment({name: "x"}) == {}


@pytest.mark.parametrize("name", NEEDED)
def test_what_computing_needs_goes_along(name: str) -> None:
    assert child_environment({name: "x"}) == {name: "x"}


def environment_of(pid: int) -> bytes:
    """Environment that the kernel shows: empty while the process still replaces its image."""
    found = b""
    while not found:
        assert ") Z" not in Path(f"/proc/{pid}/stat").read_text(), "the process has ended"
        found = Path(f"/proc/{pid}/environ").read_bytes()
    return found


def test_the_engine_process_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"canary-{name}")
    child = ProcessChild(EngineConfig(tmp_path))
    try:
        found = environment_of(child.pid)
    finally:
        child.kill()
        child.wait(0.0)
        child.owner_socket.close()
    assert os.fsencode(os.environ["PATH"]) in found
    assert b"canary" not in found
