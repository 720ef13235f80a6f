"""Fetches real chat templates and vocabularies for the tests of the codec: `python THIS_FILE`.

They come out of the source archive of a package, through pip. pip asks a source archive for its
metadata, which would start that package's build; a build backend of three lines answers instead.
Nothing of it is run, and nothing of it is committed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
INSIDE = "vendor/llama.cpp/models/"
WANTED = (".jinja", ".gguf", ".inp", ".out")
BACKEND = """
import os, shutil
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(directory, config_settings=None):
    os.makedirs(os.path.join(directory, "{name}.dist-info"))
    shutil.copy("PKG-INFO", os.path.join(directory, "{name}.dist-info", "METADATA"))
    return "{name}.dist-info"
"""


def sources() -> Path:
    """Where fetched files are kept between runs."""
    home = os.environ.get("AGENTRT_SOURCES") or Path.home() / ".cache" / "agentrt" / "sources"
    return Path(home) / f"{PACKAGE}-{VERSION}"


def fetch(target: Path) -> None:
    """Download, and unpack what the tests read into `target`."""
    with tempfile.TemporaryDirectory() as folder:
        archive = download(Path(folder))
        unpacked = Path(folder) / "unpacked"
        unpacked.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                path = member.name.partition("/")[2]
                if member.isfile() and path.startswith(INSIDE) and path.endswith(WANTED):
                    member.name = Path(path).name
                    tar.extract(member, unpacked, filter="data")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(unpacked, target)


def download(folder: Path) -> Path:
    """The source archive, without building anything."""
    backend = folder / "backend" / "scikit_build_core"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    name = f"{PACKAGE.replace('-', '_')}-{VERSION}"
    (backend / "build.py").write_text(BACKEND.format(name=name))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(backend.parent)}
    subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=True, env=environment)
    return next(folder.glob("*.tar.gz"))


def main() -> int:
    """Fetch once; a failure is reported and leaves the tests that need the files to be skipped."""
    target = sources()
    if target.is_dir():
        return 0
    try:
        fetch(target)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        print(f"no chat templates to test with: {error}", file=sys.stderr)
        return 0
    print(f"chat templates and vocabularies are in {target}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
