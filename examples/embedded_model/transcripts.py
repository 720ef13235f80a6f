"""Write transcripts of the corpus as chats, one JSON object a line, such as `agentrt quantize --calibrate` reads.

python examples/embedded_model/transcripts.py --seed 1 --count 96 calibration.jsonl
"""

import argparse
import json
from pathlib import Path

from corpus.example import Example
from corpus.mix import draw


def chat_line(example: Example) -> str:
    """A transcript as a line with its messages and tools."""
    chat = {"messages": list(example.messages), "tools": list(example.tools)}
    return json.dumps(chat, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file of the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=96)
    args = parser.parse_args()
    with args.file.open("w", encoding="utf-8") as lines:
        for index in range(args.count):
            lines.write(chat_line(draw(args.seed, index)))


if __name__ == "__main__":
    main()
