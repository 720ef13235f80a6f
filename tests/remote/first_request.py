"""Time to the first request: `PYTHONPATH=. python tests/remote/first_request.py [rounds]`.

From the start of the process `agentrt run FILE --engine ...` until a server on this machine gets
its first request, median of 7 rounds after one that warms the disk up; for an engine of
`agentrt.toml` whose kind is known, and for the address of an unknown server.

Modules are compiled, as an installation leaves them: the first round writes the bytecode of a fresh
checkout, and does not count.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.light_install import PROGRAM, serving

ROUNDS = 7


class Arrivals(list[str]):
    """Requests, and the instant of the first one."""

    first_at_s = 0.0

    def append(self, request: str) -> None:
        if not self:
            self.first_at_s = time.perf_counter()
        super().append(request)


def first_request_s(engine: str, seen: Arrivals) -> float:
    seen.clear()
    command = [sys.executable, "-m", "agentrt", "run", "order.py", "--text", "x", "--engine"]
    started_at_s = time.perf_counter()
    subprocess.run([*command, engine, "-q"], check=True, capture_output=True, timeout=60)
    return seen.first_at_s - started_at_s


def main(rounds: int) -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["AGENTRT_CAPABILITIES"] = "off"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    seen = Arrivals()
    with TemporaryDirectory() as folder, serving(seen) as (url, _):
        os.chdir(folder)
        Path("order.py").write_text(PROGRAM)
        engine = f'[engines.known]\nkind = "openai"\naddress = "{url}"\nmodel = "m"\n'
        Path("agentrt.toml").write_text(engine)
        for name in ("known", url):
            found = [first_request_s(name, seen) for _ in range(rounds + 1)][1:]
            what = (
                f"{median(found) * 1e3:.0f} ms ({min(found) * 1e3:.0f} to {max(found) * 1e3:.0f})"
            )
            print(f"{name}: {what}, first {seen[0]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS)
