"""The command line: reads flags and files, opens a runtime, shows what comes of it.

It decides nothing about a run. The result goes to standard output, everything else to standard
error, and how a run ended is the exit code. Heavy imports stand inside the commands, so that
`agentrt --help` answers at once.
"""
