"""From logits to tokens: grammar masks, sampler, text of an output."""
