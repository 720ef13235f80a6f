"""What a GPU machine is handed."""

from agentrt.lab.bench.wheels import closure, missing


def test_it_is_what_torch_and_transformers_do_not_bring() -> None:
    names = {name for name, _ in missing()}
    assert {"llguidance", "outlines-core", "pydantic", "pydantic-core", "anyio", "pytest"} <= names
    assert not names & {"torch", "triton", "transformers", "numpy", "tokenizers", "agentrt"}
    assert not [name for name in names if name.startswith(("nvidia", "cuda"))]


def test_what_a_package_needs_comes_with_it() -> None:
    assert "pydantic-core" in closure(["pydantic"])
    assert closure(["not-a-package"]) == {}
