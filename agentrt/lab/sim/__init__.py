"""A simulator of many programs on one engine or many, with the scheduler of production.

In reading order:

- `costs` what things take, in seconds; where that comes from: `fit` and `bench_file` from a file,
  `calibrate`, `step_log`, `around` and `copies` from a real engine and runtime
- `engine` an engine in virtual time: order, pages, prefix tree and hints are those of
  `agentrt.engine`, only tokens (`token_ids`, `output`) and seconds are made up; `flight` its steps
  under way; `host_tier` what it keeps in its host's memory
- `program_run` what a program declares and when; `cell` a runtime and its engine, with the
  production state and decisions between them; `generations` and `sending` what goes to the engine,
  `held` and `chats` what it is told of prefixes; `service` what a replay knows; `simulation` the
  agenda of events; `outcome` what became of the programs
- `study` a mix at a rate, `operating_point` where policies (`arms`) are compared, `sweep` the
  comparison and `sweep_page` its page, with `statistics`
- `validate` the simulator against the engine; `fluid` fleets by rates; `command` the flags
"""
