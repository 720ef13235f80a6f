"""How sure, thought over, or checked in the end: three things a type alone does not say.

python examples/08_answers.py
"""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from agentrt import CheckFailed, chat, choice, program

DESK = chat(system="Sort the mail.")
MAIL = "Hi, Mara Lindt here. Please send 3 desk lamps to Oslo, I need them before the weekend."


class Parcel(BaseModel):
    """What is sent, and in how many boxes."""

    pieces: Annotated[int, Field(ge=1, le=99)]
    boxes: Annotated[int, Field(ge=1, le=99)]

    @model_validator(mode="after")
    def no_empty_box(self) -> "Parcel":
        """No mask can compare two numbers; a check can."""
        if self.boxes > self.pieces:
            raise ValueError("more boxes than pieces")
        return self


@program
async def answers(mail: str) -> list[str]:
    """A choice with its probabilities, one after some thought, and a value that is checked."""
    ask = DESK.user(mail)

    # All options are scored at once, in one forward: the likeliest is taken.
    kind = ask.user("Which desk?").generate(choice("orders", "returns", "praise"), scored=True)

    # At most 24 tokens of thought go before the answer, which is still one of the two.
    urgent = ask.user("Urgent?").generate(choice("yes", "no"), thinking=24, max_tokens=64)

    # A parcel that does not pass is told to the model, which answers again, at most twice.
    parcel = ask.user("Pack it.").generate(Parcel, check=True, retries=2, max_tokens=40)

    lines = [f"desk: {await kind}"]
    lines += [f"  {one.value}: {one.probability:.0%}" for one in kind.scores]
    lines.append(f"urgent: {await urgent} (it thought of {len(urgent.thinking)} characters first)")
    try:
        lines.append(f"parcel: {await parcel}")
    except CheckFailed as never:
        lines.append(f"no parcel: {never.attempts[-1].reason}")
    return lines


if __name__ == "__main__":
    print("\n".join(answers.run(MAIL)))
