"""A simulator of many programs on one engine or many: production code on virtual time.

In reading order:

- `costs` the time of steps and of the runtime; `fit` and `bench_file` derive it from a file of the
  bench, `calibrate`, `step_log`, `runtime_overhead` and `copies` measure it on a `measured_engine`
- `executor` the executor of the production engine core: time from `costs`, tokens from `outputs`,
  copies of the offload tier from `copier`; `token_ids` and `codec` the texts
- `player` a trace as a program; `backend` an engine for the production runtime, with the time of
  the runtime; `simulation` programs that arrive at runtimes
- `outcome` and `outcome_observer` the results; `service` the true service of a program
- `study` a mix at a rate, `sweep` the comparison of policies (`arms`) and `sweep_page` its page
- `validate` the simulator against the engine, with `ranking` and `validation_page`; `fluid` fleets
  by rates; `command` and `flags` the command line
"""
