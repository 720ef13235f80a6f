"""`python -m agentrt_kernels.check`: the facts as JSON; ends with 1 if a kernel is wrong."""

import argparse
import json
import sys

import torch

from agentrt_kernels.check.run import run


def main(arguments: list[str]) -> int:
    """Check Triton's set on a device."""
    parser = argparse.ArgumentParser(prog="python -m agentrt_kernels.check", description=__doc__)
    here = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=here, help=f"{here} by default")
    facts = run(parser.parse_args(arguments).device)
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")
    return 1 if facts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
