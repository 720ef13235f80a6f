"""The embedded engine. The only room that imports torch and transformers.

In reading order:

- `core` the loop: `submit`, `fill`, `cancel`, `step`; `steps` the three acts of a step; `sequence`
  what is kept of a request, `account` where its time went, `intake` what is refused, `outbox` what
  is told
- `roster` who runs and who waits, by the pure rules of `plan`; `paging` the only place where pages
  change hands (pools and radix trees are `agentrt.kv_cache`), `host_kv` the tier below, `hints` what
  the runtime says of prefixes
- `machine` a packed `batch` in, logits out: `kv` the pages, `tile`, `division` and `attention` how
  they are read where no kernel set does it; `tables` the block tables, `siblings` who shares pages,
  `graphs` decode steps captured on CUDA, `transfer` what travels beside
- `load_plan` how a model will be computed, `model` does it, `report` tells it: `fastpath` the
  decoders of known shape, `hf_model` all others, `kernel_set` and `linear` what they compute with
- `decoder` from logits to tokens: `masking` and `guide` what the grammar allows, `sampler` the
  choice, `output` and `stops` what it does to the text
- `process`, `host` the engine in a process of its own, `process_watch` whether it still answers
"""
