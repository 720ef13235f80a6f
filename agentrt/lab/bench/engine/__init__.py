"""The bench of the engine: prefill and decode rates beside the roofline and beside peers."""
