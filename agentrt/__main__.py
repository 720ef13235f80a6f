"""`python -m agentrt` is `agentrt`."""

from agentrt_command import main

if __name__ == "__main__":
    main()
