"""Makes the goldens of internal/tensor and internal/format.

Needs the Python packages numpy, gguf and safetensors. Run it from the root of
the repository; it is deterministic and rewrites its files in place.
"""

import os

import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFWriter, dequantize, quantize
from safetensors.numpy import save_file

TYPES = {"f16": Q.F16, "bf16": Q.BF16, "q8_0": Q.Q8_0, "q4_1": Q.Q4_1}
BLOCK_BYTES = {"f16": 2, "bf16": 2, "q8_0": 34, "q4_1": 20}


def tensor_goldens(out, rng):
    """source.f32 -> source.TYPE as quantize gives it; random codes codes.TYPE
    -> codes.TYPE.f32 as dequantize gives them."""
    source = rng.standard_normal(1024).astype(np.float32)
    source[64:96] = 0  # a block of zeros
    source[96:128] = 3.25  # a block without spread
    source[128:160] *= np.float32(1e-8)  # scales that are subnormal halves
    source[160:192] *= np.float32(1e4)
    source[192:224] = np.arange(-16, 16) / 2  # ties
    source[224:256] = -np.abs(source[224:256])
    source[256:288] = np.ldexp(np.float32(1), np.arange(-30, 2))
    source.tofile(f"{out}/source.f32")
    for name, q in TYPES.items():
        if name != "q4_1":  # hotpath looks for a better scale than gguf does
            quantize(source, q).view(np.uint8).tofile(f"{out}/source.{name}")
        blocks = rng.integers(0, 256, (1024 // (1 if BLOCK_BYTES[name] == 2 else 32), BLOCK_BYTES[name]), dtype=np.uint8)
        # Keep every half and bfloat16 finite: NaN payloads are nobody's contract.
        for at in {"q8_0": [1], "q4_1": [1, 3]}.get(name, [1]):
            blocks[:, at] &= 0xBB
        codes = blocks.reshape(-1)
        codes.tofile(f"{out}/codes.{name}")
        dequantize(codes, q).astype(np.float32).tofile(f"{out}/codes.{name}.f32")


def gguf_golden(path, rng):
    w = GGUFWriter(path, "golden")
    w.add_uint8("k.uint8", 200)
    w.add_int8("k.int8", -100)
    w.add_uint16("k.uint16", 60000)
    w.add_int16("k.int16", -30000)
    w.add_uint32("k.uint32", 4000000000)
    w.add_int32("k.int32", -2000000000)
    w.add_uint64("k.uint64", 18000000000000000000)
    w.add_int64("k.int64", -9000000000000000000)
    w.add_float32("k.float32", 0.5)
    w.add_float64("k.float64", 1e-300)
    w.add_bool("k.bool", True)
    w.add_string("k.string", "grüße 🌍")
    w.add_array("k.strings", ["a", "", "ccc", "ü"])
    w.add_array("k.ints", [1, -2, 3])
    w.add_array("k.floats", [0.25, -1.5])
    w.add_array("k.bools", [True, False, True])
    w.add_array("k.nested", [[1, 2], [3]])
    for name, q in {"f32": Q.F32, **TYPES, "q4_0": Q.Q4_0}.items():
        data = quantize(rng.standard_normal((3, 64)).astype(np.float32), q)
        if q in (Q.F32, Q.F16):
            w.add_tensor(f"t.{name}", data)
        else:
            w.add_tensor(f"t.{name}", data.view(np.uint8), raw_dtype=q)
    w.add_tensor("t.vector", np.arange(7, dtype=np.float32))
    w.add_tensor("t.cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def safetensors_golden(path, rng):
    save_file(
        {
            "f32": rng.standard_normal((3, 5)).astype(np.float32),
            "f16": np.arange(-4, 4, dtype=np.float16).reshape(2, 2, 2),
            "i64": np.arange(3, dtype=np.int64),
            "scalar": np.array(1.5, dtype=np.float32),
        },
        path,
        metadata={"format": "pt"},
    )


def main():
    rng = np.random.default_rng(20261115)
    for name in ("tensor", "format/gguf", "format/safetensors"):
        os.makedirs(f"internal/{name}/testdata", exist_ok=True)
    tensor_goldens("internal/tensor/testdata", rng)
    gguf_golden("internal/format/gguf/testdata/golden.gguf", rng)
    safetensors_golden("internal/format/safetensors/testdata/golden.safetensors", rng)


if __name__ == "__main__":
    main()
