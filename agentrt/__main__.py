"""`python -m agentrt` is `agentrt`."""

from agentrt.cli.main import main

if __name__ == "__main__":
    main()
