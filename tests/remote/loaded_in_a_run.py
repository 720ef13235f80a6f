"""What a run imports on the event loop once its runtime with a remote engine is open.

`python tests/remote/loaded_in_a_run.py` prints the names of the modules as a JSON array.
"""

import asyncio
import json
import os
import sys
from tempfile import TemporaryDirectory

from agentrt import chat, open_runtime, program
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from tests.light_install import serving


@program
async def job() -> int:
    return len(await chat("Be brief.").user("x").generate())


class Loaded(list[str]):
    """Requests, and the modules that were there at the first one."""

    def append(self, request: str) -> None:
        if not self:
            self.modules = set(sys.modules)
        super().append(request)


async def main() -> None:
    os.environ["AGENTRT_CAPABILITIES"] = "off"
    seen = Loaded()
    with TemporaryDirectory() as folder, serving(seen) as (url, _):
        os.environ["XDG_STATE_HOME"] = folder
        engine = RemoteEngineConfig(kind="openai", address=url, model="m")
        async with open_runtime(engine=engine) as runtime:
            before = set(sys.modules)
            await runtime.run(job)
    sys.stdout.write(json.dumps(sorted(seen.modules - before)))


if __name__ == "__main__":
    asyncio.run(main())
