"""Programs as text: what can be told of one without running it."""
