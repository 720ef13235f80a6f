"""Loading of models: checkpoints, native definitions, modules of transformers."""
