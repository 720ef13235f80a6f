"""Runs the blocks of one page as a reader would, in a folder of its own."""

import ast
import asyncio
import inspect
import io
import runpy
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FunctionType, ModuleType

import anyio.from_thread
import pytest

from agentrt.cli.main import answer
from tests.documents.code_blocks import CodeBlock

ROOT = Path(__file__).resolve().parents[2]
SERVER = "http://localhost:8000"
"""Address of a server in documents; blocks with the mark `server` reach one of the tests there."""

OF_SHELL = frozenset({"cat", "echo", "ls", "printf"})
"""Other commands that blocks may have."""


class PageRun:
    """The state that the blocks of one page share: files, a module, the environment.

    Args:
        page: The page.
        folder: Working directory.
        portal: The event loop for blocks that await.
        server_url: Gives the address of a server.
    """

    def __init__(
        self,
        page: Path,
        folder: Path,
        portal: anyio.from_thread.BlockingPortal,
        server_url: Callable[[], str],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self._folder = folder
        self._portal = portal
        self._server_url = server_url
        self._patch = patch
        self._module = ModuleType(f"documented_{page.stem}")
        self._module.__file__ = str(page)
        patch.setitem(sys.modules, self._module.__name__, self._module)
        patch.syspath_prepend(folder)
        (folder / "programs").symlink_to(ROOT / "programs")
        self._printed = ""

    def run(self, block: CodeBlock) -> None:
        """Run a block, or compare one with what the block before it has printed."""
        text = block.text
        if "server" in block.marks:
            text = text.replace(SERVER, self._server_url())
        if block.title:
            (self._folder / block.title).write_text(text, "utf-8")
        elif "prints" in block.marks:
            assert self._printed.strip() == text.strip(), block.place
        elif block.is_run and block.language == "python":
            self._python(block, text)
        elif block.is_run:
            self._shell(block, text)

    def _python(self, block: CodeBlock, text: str) -> None:
        tree = ast.parse(text, block.place)
        ast.increment_lineno(tree, block.line)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, str(block.page), "exec", flags=flags)
        body = FunctionType(code, self._module.__dict__)  # as `python -m asyncio` does
        printed = io.StringIO()
        with redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                self._portal.call(body)
            else:
                body()
        self._printed = printed.getvalue()

    def _shell(self, block: CodeBlock, text: str) -> None:
        due = int(block.marks.get("exits with", "0"))
        self._printed = ""
        for line in text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                code, out = self._command(line)
                self._printed += out
                assert code == due, f"{block.place}: {line}: exit code {code}\n{out}"

    def _command(self, line: str) -> tuple[int, str]:
        """Exit code and output of one line."""
        line, _, target = line.partition(" > ")
        before, _, last = line.rpartition(" | ")
        stdin = self._of_shell(before)[1] if before else ""
        words = shlex.split(last, comments=True)
        match words:
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                self._patch.setenv(name, value)
                return 0, ""
            case ["mkdir", name]:
                (self._folder / name).mkdir()
                return 0, ""
            case ["agentrt", *args]:
                code, out = self._agentrt(args, stdin)
            case ["python", file, *args]:
                code, out = self._script(file, args)
            case ["pytest", *args]:
                code, out = self._tests(args)
            case _:
                code, out = self._of_shell(last)
        if target:
            (self._folder / target.strip()).write_text(out, "utf-8")
            return code, ""
        return code, out

    def _agentrt(self, args: list[str], stdin: str) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        with redirect_stdout(out), redirect_stderr(err):
            code = answer(args)
        self._forget_files()
        return code, out.getvalue() if code == 0 else out.getvalue() + err.getvalue()

    def _forget_files(self) -> None:
        """Drop the modules of the folder, which the next command reads anew."""
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").parent == self._folder:
                del sys.modules[name]

    def _script(self, file: str, args: list[str]) -> tuple[int, str]:
        out = io.StringIO()
        self._patch.setattr(sys, "argv", [file, *args])
        with redirect_stdout(out):
            runpy.run_path(file, run_name="__main__")
        self._forget_files()
        return 0, out.getvalue()

    def _tests(self, args: list[str]) -> tuple[int, str]:
        """A session inside this one, which has imported what tests of programs need."""
        out = io.StringIO()
        self._patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        with redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # plugins were imported by this session
            code = pytest.main(
                [
                    "-p",
                    "agentrt_pytest",
                    "-p",
                    "no:cacheprovider",
                    f"--rootdir={self._folder}",
                    *args,
                ]
            )
        self._forget_files()
        return int(code), out.getvalue()

    def _of_shell(self, line: str) -> tuple[int, str]:
        words = shlex.split(line)
        assert words[0] in OF_SHELL, f"{line!r} is run by no test; mark it as not run, with why"
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr if done.returncode else done.stdout


def refuse_running_loop(name: str) -> None:
    """`Program.run` is for synchronous code, in documents as anywhere."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError(f"{name}.run() inside a running event loop")
