"""LoRA adapters of a decoder: checkpoints as PEFT writes them, and their place in the layers."""
