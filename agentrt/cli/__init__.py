"""The command line: reads flags and files, opens a runtime, and shows the result.

It decides nothing about a run. The result goes to standard output, everything else to standard
error, and the exit code is the kind of the run's end. Heavy imports are inside the commands, so
that `agentrt --help` answers at once.
"""
