"""The scheduler of steps: waiting queue, admission, token budget, preemption."""
