"""A program is an async function; a generation is a node that one awaits.

python examples/01_hello.py
"""

from agentrt import chat, program

SOLVER = chat(system="Solve step by step.")


@program
async def hello(question: str) -> str:
    """An answer in free text."""
    return await SOLVER.user(question).generate(max_tokens=40)


if __name__ == "__main__":
    print(hello.run("What is 47 + 38?"))
