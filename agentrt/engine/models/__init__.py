"""Model loading: checkpoints, native model definitions, modules of transformers."""
