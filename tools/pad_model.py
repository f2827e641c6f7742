#!/usr/bin/env python3
"""Makes a large model out of a small one: layers are added whose outputs change the logits only a little. The small
model then agrees with the large one about as often as a real draft model agrees with its target, so that speculation
can be measured where no real pair is at hand.

  pad_model.py SMALL.gguf OUT.gguf --layers 240 --scale 0.25 [--type bf16|q8_0|q4_0] [--seed 1]

SMALL: a GGUF of the llama family (one file). The added layers have random weights (seeded); --scale is the size of
what they add to the residual stream beside what they read. 0: the large model says what the small one does; the
larger, the less they agree. bench/spec.py shows how often the first token of a draft is right: with 0.25 it was 0.82 (Q4_0) to
0.88 (Q8_0) of greedy answers to four questions, as real pairs agree.
Source of the format: the GGUF specification, version 3."""
import argparse
import random
import struct
import sys

ALIGN = 32
SIZES = {0: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 10: (256, 84),
         11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210)}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
F32, BF16, Q8_0, Q4_0 = 0, 30, 8, 2


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, form):
        size = struct.calcsize("<" + form)
        v = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += size
        return v

    def text(self):
        n = self.get("Q")
        self.at += n
        return bytes(self.data[self.at - n:self.at]).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            item, n = self.get("I"), self.get("Q")
            for _ in range(n):
                self.value(item)
            return None
        return self.get(SCALARS[kind])


def read(path):
    """Metadata as (key, bytes of type and value, value), tensors as (name, dims, type, bytes)."""
    with open(path, "rb") as f:
        data = memoryview(f.read())
    r = Reader(data)
    if bytes(data[:4]) != b"GGUF":
        sys.exit("%s is no GGUF file" % path)
    r.at = 4
    r.get("I")
    n_tensor, n_meta = r.get("Q"), r.get("Q")
    meta, infos, tensors, align = [], [], [], ALIGN
    for _ in range(n_meta):
        key, first = r.text(), r.at
        value = r.value(r.get("I"))
        meta.append((key, bytes(data[first:r.at]), value))
        if key == "general.alignment":
            align = value
    for _ in range(n_tensor):
        name, n = r.text(), r.get("I")
        infos.append((name, [r.get("Q") for _ in range(n)], r.get("I"), r.get("Q")))
    base = (r.at + align - 1) // align * align
    for name, dims, kind, offset in infos:
        tensors.append((name, dims, kind, data[base + offset:base + offset + size_of(dims, kind)]))
    return meta, tensors


def size_of(dims, kind):
    n = 1
    for d in dims:
        n *= d
    if kind not in SIZES:
        sys.exit("tensors of type %d are not known here" % kind)
    block, size = SIZES[kind]
    return n // block * size


def weights(rng, n, kind, size):
    """n random numbers of about the given size (their root mean square)."""
    if kind == BF16: # sign, mantissa at random under one exponent: |w| between 2^e and 2^(e+1)
        bits = struct.unpack("<I", struct.pack("<f", size / 1.53))[0] >> 23
        low = bytes((bits & 1) << 7 | (i & 127) for i in range(256))
        high = bytes((i & 128) | bits >> 1 for i in range(256))
        out = bytearray(2 * n)
        out[0::2] = rng.randbytes(n).translate(low)
        out[1::2] = rng.randbytes(n).translate(high)
        return out
    step, rms = {Q8_0: (34, 74), Q4_0: (18, 4.2)}[kind] # codes at random, and the root mean square of their values
    # 4 bits: -7 to 7, as a mean beside 0 would add up over the layers
    codes = bytes(range(256)) if kind == Q8_0 else bytes((b & 15 or 8) | (b >> 4 or 8) << 4 for b in range(256))
    out = bytearray(n // 32 * step)
    half = struct.pack("<e", size / rms)
    out[0::step], out[1::step] = half[:1] * (n // 32), half[1:] * (n // 32)
    for i in range(2, step):
        out[i::step] = rng.randbytes(n // 32).translate(codes)
    return out


def added(rng, like, layer, kind, scale):
    name = like[0].replace("blk.0.", "blk.%d." % layer)
    n = size_of(like[1], F32) // 4
    if len(like[1]) == 1: # a norm
        return name, like[1], F32, struct.pack("<f", 1) * n
    size = like[1][0] ** -0.5
    if name.endswith("attn_output.weight") or name.endswith("ffn_down.weight"):
        size *= scale
    return name, like[1], kind, weights(rng, n, kind, max(size, 1e-7))


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def write(path, meta, tensors):
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)))
    for key, value, _ in meta:
        head += text(key) + value
    offset = 0
    for name, dims, kind, data in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        head += struct.pack("<IQ", kind, offset)
        offset += (len(data) + ALIGN - 1) // ALIGN * ALIGN
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for _, _, _, data in tensors:
            f.write(data)
            f.write(bytes(-len(data) % ALIGN))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("small")
    p.add_argument("out")
    p.add_argument("--layers", type=int, default=240)
    p.add_argument("--scale", type=float, default=0.25)
    p.add_argument("--type", choices=["bf16", "q8_0", "q4_0"], default="bf16")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    meta, tensors = read(a.small)
    arch = next((v for k, _, v in meta if k == "general.architecture"), None)
    if arch != "llama":
        sys.exit("a model of the llama family is needed, this is %s" % arch)
    n_layer = next(v for k, _, v in meta if k == "llama.block_count")
    keep = ("llama.block_count", "general.alignment")
    meta = [m for m in meta if m[0] not in keep]
    meta.append(("llama.block_count", struct.pack("<II", 4, n_layer + a.layers), None))
    kind, rng = {"bf16": BF16, "q8_0": Q8_0, "q4_0": Q4_0}[a.type], random.Random(a.seed)
    first = [t for t in tensors if t[0].startswith("blk.0.")]
    for i in range(a.layers):
        tensors += [added(rng, t, n_layer + i, kind, a.scale) for t in first]
    write(a.out, meta, tensors)


if __name__ == "__main__":
    main()
