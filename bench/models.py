"""The model files that the benches run: real ones are fetched, others are made from them, in a cache folder.

python3 bench/models.py HAYATE [NAME...]      makes them (all) and prints their paths
"""
import mmap
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import common as gguf  # noqa: E402  reading and writing GGUF

# name -> (made from, quantize type or maker)
MODELS = {
    "smollm2-q4_1": ("fetch", "smollm2"),
    "smollm2-f16": ("smollm2-q4_1", "f16"),
    "smollm2-q8_0": ("smollm2-f16", "q8_0"),
    "smollm2-q4_0": ("smollm2-f16", "q4_0"),
    "smollm2-q4_k_m": ("smollm2-f16", "q4_k_m"),
    "gemma3-q4_k_m": ("fetch", "gemma3-270m"),
    "llama1b-q8_0": ("synth", None),
    "llama1b-q4_0": ("llama1b-q8_0", "q4_0"),
    "llama1b-q4_k_m": ("llama1b-q8_0", "q4_k_m"),
}
GGML = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
        12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 30: (1, 2), 39: (32, 17)}


def cache_dir():
    base = os.environ.get("HAYATE_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "hayate", "bench")
    os.makedirs(path, exist_ok=True)
    return path


class Head(gguf.Gguf):
    """Metadata and tensor table of a file of any size."""

    def __init__(self, path):
        super().__init__()
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
            self.read(m[:min(len(m), 64 << 20)])
        self.data = b""

    def number(self, key, default=None):
        if key not in self.meta:
            return default
        kind, raw = self.meta[key]
        if kind == gguf.ARR:
            kind, raw = struct.unpack_from("<I", raw)[0], raw[12:]
        return struct.unpack_from(gguf.FORM[kind], raw)[0]

    def string(self, key):
        return self.text(self.meta[key][1], 0)[0]


def facts(path):
    """What the roofline needs: bytes and weights that a token reads, keys and values a token of context."""
    h = Head(path)
    arch = h.string("general.architecture")
    body = body_bytes = last = last_bytes = 0
    for name, (dims, kind, _) in h.tensors.items():
        if len(dims) < 2 or kind not in GGML:
            continue
        n = dims[0] * dims[1] * (dims[2] if len(dims) > 2 else 1)
        size = n // GGML[kind][0] * GGML[kind][1]
        if name.startswith("blk."):
            body, body_bytes = body + n, body_bytes + size
        elif name == "output.weight" or (name == "token_embd.weight" and "output.weight" not in h.tensors):
            last, last_bytes = n, size
    layers, heads = h.number(arch + ".block_count"), h.number(arch + ".attention.head_count")
    kv = h.number(arch + ".attention.head_count_kv", heads)
    width = h.number(arch + ".embedding_length")
    d = h.number(arch + ".attention.key_length", width // heads)
    window = h.number(arch + ".attention.sliding_window", 0) if arch.startswith("gemma") else 0
    floats = all(kind in (0, 1, 30) for name, (dims, kind, _) in h.tensors.items() if len(dims) > 1)
    return {"arch": arch, "file_bytes": os.path.getsize(path), "weights": body, "weights_last": last,
            "token_bytes": body_bytes + last_bytes, "layers": layers, "kv_heads": kv, "heads": heads, "d_head": d,
            "window": window, "window_every": 6 if window else 0, "floats": floats}


def synth(out, source):
    """The shape of a Llama of 1.2 billion weights in Q8_0, random; the vocabulary is the source's, filled up."""
    width, layers, heads, kv, ffn, vocab = 2048, 16, 32, 8, 8192, 128256
    src = Head(source)
    new = gguf.Gguf()
    for key, v in src.meta.items():
        if key.startswith("tokenizer."):
            new.meta[key] = v
    kind, raw = new.meta["tokenizer.ggml.tokens"]
    inner, n = struct.unpack_from("<IQ", raw)
    pads = b"".join(gguf.string("<pad %d>" % i) for i in range(n, vocab))
    new.meta["tokenizer.ggml.tokens"] = (kind, struct.pack("<IQ", inner, vocab) + raw[12:] + pads)
    kind, raw = new.meta["tokenizer.ggml.token_type"]
    new.meta["tokenizer.ggml.token_type"] = (kind, struct.pack("<IQ", gguf.I32, vocab) + raw[12:] +
                                             struct.pack("<i", 5) * (vocab - n))
    new.set("general.architecture", gguf.STR, "llama").set("general.name", gguf.STR, "random weights of a 1.2 B Llama")
    new.set("general.file_type", gguf.U32, 7).set("general.quantization_version", gguf.U32, 2)
    for key, v in (("block_count", layers), ("context_length", 8192), ("embedding_length", width),
                   ("feed_forward_length", ffn), ("attention.head_count", heads), ("attention.head_count_kv", kv),
                   ("rope.dimension_count", width // heads), ("vocab_size", vocab)):
        new.set("llama." + key, gguf.U32, v)
    new.set("llama.attention.layer_norm_rms_epsilon", gguf.F32, 1e-5).set("llama.rope.freq_base", gguf.F32, 500000.0)
    shapes = [("token_embd.weight", [width, vocab]), ("output_norm.weight", [width])]
    for i in range(layers):
        b = "blk.%d." % i
        shapes += [(b + "attn_norm.weight", [width]), (b + "ffn_norm.weight", [width]),
                   (b + "attn_q.weight", [width, width]), (b + "attn_k.weight", [width, kv * width // heads]),
                   (b + "attn_v.weight", [width, kv * width // heads]), (b + "attn_output.weight", [width, width]),
                   (b + "ffn_gate.weight", [width, ffn]), (b + "ffn_up.weight", [width, ffn]),
                   (b + "ffn_down.weight", [ffn, width])]
    at, sizes = 0, []
    for name, dims in shapes:
        size = dims[0] * 4 if len(dims) == 1 else dims[0] * dims[1] // 32 * 34
        new.tensors[name] = [dims, 0 if len(dims) == 1 else 8, at]
        sizes.append(size)
        at += -(-size // 32) * 32
    rng = random.Random(1)
    scale = struct.pack("<e", 2.0 ** -12)
    blocks = b"".join(scale + rng.randbytes(32) for _ in range(1 << 16))
    new.write(out + ".tmp")
    with open(out + ".tmp", "ab") as f:
        for (name, dims), size in zip(shapes, sizes):
            if len(dims) == 1:
                f.write(struct.pack("<f", 1.0) * dims[0])
            else:
                shift = rng.randrange(1 << 16) * 34
                turned = blocks[shift:] + blocks[:shift]
                for left in range(size, 0, -len(turned)):
                    f.write(turned[:left])
            f.write(bytes(-size % 32))
    os.rename(out + ".tmp", out)


def ensure(name, hayate, say=print):
    """The path of a model, made if it is missing."""
    source, how = MODELS[name]
    if source == "fetch":
        r = subprocess.run([os.path.join(ROOT, "tools", "fetch_model.sh"), how], stdout=subprocess.PIPE, text=True, check=True)
        return r.stdout.strip().splitlines()[-1]
    out = os.path.join(cache_dir(), name + ".gguf")
    if os.path.exists(out):
        return out
    base = ensure("smollm2-q4_1" if source == "synth" else source, hayate, say)
    say("making %s" % out)
    if source == "synth":
        synth(out, base)
    else:
        subprocess.run([hayate, "quantize", "-q", base, out, how], check=True, stdout=subprocess.DEVNULL)
    return out


def path_of(name, hayate):
    """A name of MODELS, or a file."""
    return ensure(name, hayate) if name in MODELS else name


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for model in sys.argv[2:] or MODELS:
        print(ensure(model, sys.argv[1]))
