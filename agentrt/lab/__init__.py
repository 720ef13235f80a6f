"""The laboratory: workloads, arms, benchmarks, the simulator. Nothing of the product imports it."""
