"""What runs in a step: the scheduler, the waiting queue, admission, the token budget."""
