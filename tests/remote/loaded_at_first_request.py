"""What `agentrt run FILE --engine NAME` has imported when a server gets its first request.

`python tests/remote/loaded_at_first_request.py` prints the names of the modules as a JSON array.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.light_install import PROGRAM, serving


class Loaded(list[str]):
    """Requests, and the modules that were there at the first one."""

    def append(self, request: str) -> None:
        if not self:
            self.modules = sorted(sys.modules)
        super().append(request)


def main() -> None:
    seen, before = Loaded(), set(sys.modules)
    os.environ["AGENTRT_CAPABILITIES"] = "off"
    with TemporaryDirectory() as folder, serving(seen) as (url, _):
        os.chdir(folder)
        sys.path.insert(0, folder)
        Path("order.py").write_text(PROGRAM)
        engine = f'[engines.known]\nkind = "openai"\naddress = "{url}"\nmodel = "m"\n'
        Path("agentrt.toml").write_text(engine)
        from agentrt.cli.main import answer

        with contextlib.redirect_stdout(io.StringIO()):
            assert answer(["run", "order.py", "--text", "x", "--engine", "known", "-q"]) == 0
    sys.stdout.write(json.dumps([name for name in seen.modules if name not in before]))


if __name__ == "__main__":
    main()
