"""Nothing in the tree runs data as code: no pickle, no eval, weights from safetensors only."""

import ast
from collections.abc import Iterable

import pytest

from tests.syntax import ROOT, files_in, nodes_of

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "torch.load", "torch.save", "yaml.load", "os.system", "np.load"}
LAST_NAMES = {name.rpartition(".")[2] for name in CALLS}
KEYWORDS = {"allow_pickle", "trust_remote_code", "shell"}

# A trainer resumes from its own checkpoints, outside the tree; `weights_only` runs no code.
TRAINER_MAY = {"torch.load(weights_only=True)", "torch.save"}


def offences(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append((node.lineno, str(node.module)))
        elif isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = ast.unparse(node.func) if last in LAST_NAMES else ""
            if name in CALLS:
                safe = any(ast.unparse(keyword) == "weights_only=True" for keyword in node.keywords)
                found.append((node.lineno, f"{name}(weights_only=True)" if safe else name))
            for keyword in node.keywords:
                on = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                if keyword.arg in KEYWORDS and on:
                    found.append((node.lineno, f"{keyword.arg}="))
    return found


def test_no_data_runs_as_code() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {what}"
        for folder in ("agentrt", "kernels", "programs", "examples", "tests")
        for path in files_in(folder)
        for line, what in offences(nodes_of(path))
        if not (folder == "examples" and what in TRAINER_MAY)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run('ls', shell=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
    ],
)
def test_each_way_is_seen(source: str) -> None:
    assert offences(ast.walk(ast.parse(source)))


def test_saying_no_is_allowed() -> None:
    assert not offences(ast.walk(ast.parse("np.load_text(path, allow_pickle=False)")))
