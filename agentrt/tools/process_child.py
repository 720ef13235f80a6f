"""The process of one call of a tool: reads the call, runs the function, answers.

Run as `python -m agentrt.tools.process_child FD`. The call is two lines of JSON, the form and the
arguments; so is the answer, the error or null and the result.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrt.tools.process_form import JsonTypes, json_of
from agentrt.tools.signature import raised_at
from agentrt.tools.spec import ToolSpec
from agentrt.tools.write_log import tool_call_key


def main(descriptor: int) -> None:
    """Serve one call, and end the process."""
    os.set_inheritable(descriptor, False)
    link = socket.socket(fileno=descriptor)
    with link.makefile("rb") as lines:
        form = json.loads(lines.readline())
        arguments = lines.readline()
    tool_call_key.set(form["key"])
    if not form["outlives_caller"]:
        threading.Thread(target=_end_with_caller, args=(link,), daemon=True).start()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if form["memory_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (form["memory_bytes"], hard))
    answer = _answer(form, arguments, hard)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        link.sendall(answer)
    finally:
        os._exit(0)  # threads of the tool may go on for ever


def _answer(form: dict[str, Any], arguments: bytes, hard_bytes: int) -> bytes:
    function: Callable[..., Any] = main
    try:
        function = found(form["module"], form["file"], form["qualname"])
        types = JsonTypes.of(function, form["qualname"])
        value = function(**types.arguments.validate_json(arguments))
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return b"null\n" + json_of(types.result, value) + b"\n"
    except BaseException as error:
        resource.setrlimit(resource.RLIMIT_AS, (hard_bytes, hard_bytes))  # room for the answer
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError):
            message = f"MemoryError: it needs more than memory_bytes={form['memory_bytes']}"
        where = raised_at(function, error) if function is not main else ""
        return json.dumps({"message": message, "where": where}).encode() + b"\n\n"


def found(module: str, file: str, qualname: str) -> Callable[..., Any]:
    """The function of a tool, by the name of its module or else by the file."""
    spec = None if module == "__main__" else importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None and os.path.samefile(spec.origin, file):
        place = pkgutil.resolve_name(module)
    else:
        spec = importlib.util.spec_from_file_location(f"agentrt_tool_{Path(file).stem}", file)
        assert spec is not None
        assert spec.loader is not None
        place = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(place)
    function = getattr(place, qualname)
    tool = getattr(function, "spec", None)  # of the decorated function
    return tool.fn if isinstance(tool, ToolSpec) else function


def _end_with_caller(link: socket.socket) -> None:
    if not link.recv(1):
        os.killpg(os.getpgid(0), signal.SIGKILL)  # with what the tool has started


if __name__ == "__main__":
    main(int(sys.argv[1]))
