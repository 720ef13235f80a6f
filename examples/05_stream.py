"""Text as it is written, and items as each one closes.

python examples/05_stream.py
"""

from agentrt import chat, program

SOLVER = chat(system="Solve step by step.")


@program
async def stream(question: str) -> list[int]:
    """Prints an answer while it is written, then numbers one by one."""
    answer = SOLVER.user(question).generate(max_tokens=30, name="answer")
    async for piece in answer.stream():
        print(piece, end="", flush=True)
    print()
    numbers = answer.ctx.user("Name some numbers.").each(int, max_tokens=24, on_limit="close")
    async for number in numbers:
        print("item:", number)
    return await numbers


if __name__ == "__main__":
    print(stream.run("What is 20 + 22?"))
