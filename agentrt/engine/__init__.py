"""The embedded engine. The only room that imports torch and transformers.

In reading order:

- `core` the loop: `submit`, `fill`, `cancel`, `step`; `sequence` what it keeps of a request,
  `account` where the request's time went, `intake` what is refused
- `roster` who runs and who waits, by the pure rules of `plan`; `paging` the only place where pages
  change hands (the pool and the radix tree are `agentrt.cache`)
- `machine` a packed `batch` in, logits out: `kv` the pages, `tile`, `division` and `attention` how
  they are read where no kernel set does it
- `load_plan` how a model will be computed, `model` does it, `report` tells it: `fastpath` the
  decoders of known shape, `hf_model` all others, `kernel_set` and `linear` what they compute with
- `decoder` from logits to tokens: `masking` and `guide` what the grammar allows, `sampler` the
  choice, `output` and `stops` what it does to the text
- `process`, `host` the engine in a process of its own
"""
