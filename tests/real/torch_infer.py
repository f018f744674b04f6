"""torch_infer.py - inference: requests of many lengths, a token at a time, with keys and
values that grow.
"""
# real: needs torch
# real: nvidia
# real: way uncached PYTORCH_NO_CUDA_MEMORY_CACHING=1
# real: way caching
# real: trace uncached
import random

import torch

import work

REQUESTS, LAYERS, HEADS, WIDTH = 12, 4, 8, 512


def make_weights():
    return [torch.randn(4, WIDTH, WIDTH).cuda() / WIDTH ** 0.5 for _ in range(LAYERS)]


def attend(token, weights, cache):
    """One layer: the token's keys and values are added to the cache, which is copied."""
    query, key, value = (token @ weights[i] for i in range(3))
    cache[0] = torch.cat((cache[0], key)) if cache[0] is not None else key
    cache[1] = torch.cat((cache[1], value)) if cache[1] is not None else value
    split = [part.view(-1, HEADS, WIDTH // HEADS).transpose(0, 1)
             for part in (query, cache[0], cache[1])]
    found = torch.nn.functional.scaled_dot_product_attention(*split)
    return token + found.transpose(0, 1).reshape(-1, WIDTH) @ weights[3]


def answer(prompt, tokens, weights):
    """The last token, before the norm: behind it the sizes would not show."""
    caches, token = [[None, None] for _ in weights], prompt
    for _ in range(tokens):
        for layer, cache in zip(weights, caches):
            token = attend(token, layer, cache)
        last = token[-1:]
        token = torch.nn.functional.layer_norm(last, (WIDTH,))
    return last


@torch.no_grad()
def main():
    work.steady(torch, 2)
    chance = random.Random(3)
    weights = make_weights()
    answer(torch.randn(16, WIDTH).cuda(), 2, weights)
    torch.cuda.synchronize()
    work.begin()
    last = [answer(torch.randn(chance.randrange(8, 300), WIDTH).cuda(),
                   chance.randrange(4, 40), weights) for _ in range(REQUESTS)]
    torch.cuda.synchronize()
    work.done()
    print(f"{REQUESTS} answers, checksum {work.checksum(torch.cat(last).flatten().tolist())}")


main()
