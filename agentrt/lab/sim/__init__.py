"""A simulator of many programs on one engine or many: production on virtual time.

In reading order:

- `costs` how long things take, in seconds; measured by `fit` and `bench_file` from a file, and by
  `calibrate`, `step_log`, `runtime_overhead` and `copies` from a real engine and runtime
- `executor` the executor of the production engine core: costs for time, `outputs` for tokens,
  `copier` for the offload tier; `token_ids` and `codec` the texts
- `player` a trace as a program; `backend` an engine for the production runtime, with the time that
  the runtime itself takes; `simulation` programs that arrive at runtimes
- `outcome` and `outcome_observer` the results; `service` the service that a program needs
- `study` a mix at a rate, `sweep` the comparison of policies (`arms`) and `sweep_page` its page,
  with `statistics`
- `validate` the simulator against the engine; `fluid` fleets by rates; `command` the flags
"""
