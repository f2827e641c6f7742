#!/usr/bin/env python3
"""Perplexity of a Hugging Face folder or a GGUF (dequantised) over windows of token ids, as `hayate eval perplexity` defines it.

  hayate tokenize MODEL -f TEXT --no-bos --no-parse-special --ids > ids.json
  ppl_reference.py MODEL ids.json [--window 512] [--windows 32] [--bos ID] [--logits OUT.f32]

Windows follow each other without overlap; with --bos the first token of each is replaced by it; the
second half of each is scored. Needs torch and transformers. --logits keeps the scored logits.
"""
import argparse
import json
import math
import os
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

ap = argparse.ArgumentParser()
ap.add_argument("model")
ap.add_argument("ids")
ap.add_argument("--window", type=int, default=512)
ap.add_argument("--windows", type=int, default=32)
ap.add_argument("--bos", type=int)
ap.add_argument("--logits")
a = ap.parse_args()
ids = json.load(open(a.ids))
where = {"pretrained_model_name_or_path": a.model}
if a.model.endswith(".gguf"):   # transformers dequantises it
    where = {"pretrained_model_name_or_path": os.path.dirname(a.model) or ".", "gguf_file": os.path.basename(a.model)}
model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager").eval()
nll = n = 0
out = open(a.logits, "wb") if a.logits else None
with torch.no_grad():
    for w in range(min(a.windows, len(ids) // a.window)):
        x = ids[w * a.window:(w + 1) * a.window]
        if a.bos is not None:
            x[0] = a.bos
        half = a.window // 2
        lg = model(torch.tensor([x])).logits[0, half - 1:-1].float()
        lp = torch.log_softmax(lg.double(), -1)
        nll -= lp[torch.arange(half), torch.tensor(x[half:])].sum().item()
        n += half
        if out:
            out.write(np.ascontiguousarray(lg.numpy(), dtype="<f4").tobytes())
        print(f"\r{w + 1} windows: {math.exp(nll / n):.4f}", end="", file=sys.stderr)
print(file=sys.stderr)
print(json.dumps({"perplexity": math.exp(nll / n), "scored": n}))
