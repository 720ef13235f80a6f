"""What transformers' own `generate()` says: the measure of every engine here."""

import functools

import torch
import transformers

EPSILON = 1e-3
"""A token may differ where the two best logits are closer than this."""


def said(path, prompt, new_tokens):
    """Tokens of a greedy output, and the gap of the two best logits at each."""
    return _said(str(path), tuple(prompt), new_tokens)


@functools.cache
def _said(path, prompt, new_tokens):
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        made = _model(path).generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=new_tokens,
            output_scores=True,
            return_dict_in_generate=True,
            pad_token_id=0,
        )
    best = [score[0].topk(2).values for score in made.scores]
    return made.sequences[0, len(prompt) :].tolist(), [float(two[0] - two[1]) for two in best]


@functools.lru_cache(maxsize=1)
def _model(path):
    return transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    ).eval()
