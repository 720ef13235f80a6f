"""A simulator of many programs on one engine or many, with the scheduler of production.

In reading order:

- `costs` what a step takes, in seconds; `fit` and `calibrate` where that comes from
- `engine` an engine in virtual time: order, pages, prefix tree and hints are those of
  `agentrt.engine`, only tokens (`token_ids`, `output`) and seconds are made up
- `program_run` what a program declares and when; `cell` a runtime and its engine, with the
  production state and decisions between them; `simulation` the agenda of events
- `outcome` what became of the programs
"""
