#!/usr/bin/env python3
"""Makes the files of this folder with the formats' own Python libraries (gguf, safetensors, numpy), and
expected.json with what those libraries read back. Run in this folder:

    pip install gguf==0.19.0 safetensors numpy && python3 make.py
"""
import json
import pathlib
import shutil

import gguf
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(7)
Q = gguf.GGMLQuantizationType


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def add_meta(w):
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_uint64("t.u64", 2**64 - 1)
    w.add_key_value("t.i64", -(2**63), gguf.GGUFValueType.INT64)
    w.add_float32("t.f32", 0.1)
    w.add_float64("t.f64", 0.1)
    w.add_bool("t.yes", True)
    w.add_bool("t.no", False)
    w.add_string("t.str", "疾風 wind")
    w.add_string("t.empty", "")
    w.add_array("t.strs", ["a", "", "quick brown fox", "ü"])
    w.add_array("t.ints", [-1, 0, 2**31 - 1])
    w.add_array("t.floats", [0.5, -1.5, 3.25])
    w.add_array("t.bools", [True, False, True])


def add_tensors(w):
    rng = np.random.default_rng(8)  # the same for the whole file and for its split form
    types = [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q2_K, Q.Q3_K, Q.Q4_K,
             Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS, Q.MXFP4, Q.IQ2_XXS]
    for q in types:
        block, size = gguf.GGML_QUANT_SIZES[q]
        rows = rng.integers(0, 256, (3, 256 // block * size), dtype=np.uint8)
        if q == Q.F32:
            rows = rng.standard_normal((3, 256)).astype(np.float32)
        w.add_tensor(f"w.{q.name.lower()}", rows, raw_dtype=q)
    w.add_tensor("v.one", np.arange(5, dtype=np.float32))
    w.add_tensor("v.four", np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5))


def write(path, **options):
    w = gguf.GGUFWriter(path, "test", **options)
    add_meta(w)
    add_tensors(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def plain(x):
    return x.item() if hasattr(x, "item") else x


def listing(path):
    r = gguf.GGUFReader(path)
    meta = {}
    for f in r.fields.values():
        if f.name.startswith("GGUF."):
            continue
        value = f.contents()
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        meta[f.name] = {"type": f.types[0].value, "item": f.types[-1].value, "value": value}
    tensors = [{"name": t.name, "dims": [int(d) for d in t.shape], "type": t.tensor_type.value,
                "offset": int(t.data_offset), "bytes": int(t.n_bytes),
                "fnv": fnv(bytes(t.data.tobytes()))} for t in r.tensors]
    return {"meta": meta, "tensors": tensors}


def safetensors():
    a = {"f32": rng.standard_normal((3, 5)).astype(np.float32),
         "f16": rng.standard_normal((2, 3, 4)).astype(np.float16),
         "i64": np.arange(7, dtype=np.int64),
         "scalar": np.array(2.5, dtype=np.float32),
         "five": np.zeros((1, 2, 1, 2, 3), dtype=np.float32)}
    save_file(a, "one.safetensors", metadata={"format": "np"})
    out = {k: {"shape": list(v.shape), "bytes": v.nbytes, "fnv": fnv(v.tobytes())} for k, v in a.items()}
    folder = pathlib.Path("folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = sorted(a)
    weight_map = {}
    for i, part in enumerate((names[:2], names[2:])):
        file = f"model-{i + 1:05d}-of-00002.safetensors"
        save_file({k: a[k] for k in part}, folder / file)
        weight_map |= {k: file for k in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"model_type": "test", "hidden_size": 5}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    return out


def main():
    for old in pathlib.Path(".").glob("*.gguf"):
        old.unlink()
    write("types.gguf")
    write("split.gguf", split_max_tensors=8)
    expected = {"gguf": listing("types.gguf"), "safetensors": safetensors()}
    pathlib.Path("expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


main()
