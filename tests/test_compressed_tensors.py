"""Checkpoints exchanged with compressed-tensors 0.14.0.1, in both directions: equal bit for bit."""

import json
import random
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("compressed_tensors")
from compressed_tensors.compressors import ModelCompressor, Sparse24BitMaskCompressor
from compressed_tensors.config import Sparse24BitMaskConfig
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from safetensors.torch import load_file, save_file

import checkpoint_tool

SHAPES = {"a": (4, 8), "b": (16, 12), "model.layers.0.mlp.up_proj": (33, 132), "d": (128, 512)}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "fp8": torch.float8_e4m3fn}


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def two_four(rows, cols, dtype, seed):
    """All patterns: groups with no, one and two non-zeros at every place; zeros of both signs."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, cols // 4, 4, generator=generator) * 8
    kept = torch.rand(rows, cols // 4, 4, generator=generator).argsort(dim=-1) < 2
    kept &= torch.rand(rows, cols // 4, 4, generator=generator) < 0.8
    zeros = torch.where(torch.rand(rows, cols // 4, 4, generator=generator) < 0.5, 0.0, -0.0)
    return torch.where(kept, values, zeros).reshape(rows, cols).to(dtype)


def plus_zero(tensor):
    """Stored zeros are +0 here; compressed-tensors may keep a -0."""
    raw = bits(tensor).view(torch.uint8).clone()
    flat = tensor.float() == 0
    raw.view(*tensor.shape, -1)[flat] = 0
    return raw.view(tensor.dtype).reshape(tensor.shape)


def scales(rows, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(rows, 1, generator=generator) + 0.01).to(dtype)


def sparsity_config():
    return Sparse24BitMaskConfig(global_sparsity=0.5, sparsity_structure="2:4", targets=["Linear"], ignore=["lm_head"])


def quantization_config():
    scheme = QuantizationScheme(
        targets=["Linear"], format="float-quantized",
        weights=QuantizationArgs(num_bits=8, type="float", strategy="channel", symmetric=True, dynamic=False,
                                 observer="minmax"),
        input_activations=QuantizationArgs(num_bits=8, type="float", strategy="token", symmetric=True, dynamic=True,
                                           observer=None))
    return QuantizationConfig(config_groups={"group_0": scheme}, format="float-quantized",
                              quantization_status="compressed", ignore=["lm_head"])


def write_config(directory, sparse, quantized):
    (directory / "config.json").write_text("{}")
    ModelCompressor(sparsity_config=sparsity_config() if sparse else None,
                    quantization_config=quantization_config() if quantized else None).update_config(str(directory))


def module_arguments():
    return [f"{name}:{rows}x{cols}" for name, (rows, cols) in SHAPES.items()]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("sparse", [True, False])
def test_reads_what_compressed_tensors_writes(tmp_path, kind, sparse):
    dense = {f"{name}.weight": two_four(*shape, DTYPES[kind], seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    state = dict(dense)
    if sparse:
        state = Sparse24BitMaskCompressor(config=sparsity_config()).compress(state, compression_targets=set(SHAPES))
        assert not any(name.endswith(".weight") for name in state)
    scale = {}
    if kind == "fp8":
        scale = {f"{name}.weight_scale": scales(shape[0], torch.bfloat16, 1) for name, shape in SHAPES.items()}
    save_file({**state, **scale}, tmp_path / "model.safetensors")
    write_config(tmp_path, sparse, kind == "fp8")

    checkpoint_tool.run("read", tmp_path, tmp_path / "out.safetensors", *module_arguments())
    out = load_file(tmp_path / "out.safetensors")
    assert set(out) == set(dense) | set(scale)
    for name, weight in dense.items():
        expected = plus_zero(weight) if sparse else weight
        assert torch.equal(bits(out[name]), bits(expected)), name
    for name, value in scale.items():
        assert out[name].dtype == value.dtype and torch.equal(out[name], value)


@pytest.mark.parametrize("kind", DTYPES)
def test_compressed_tensors_reads_what_we_write(tmp_path, kind):
    dense = {f"{name}.weight": two_four(*shape, DTYPES[kind], seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    scale = {}
    if kind == "fp8":
        scale = {f"{name}.weight_scale": scales(shape[0], torch.float32, 1) for name, shape in SHAPES.items()}
    save_file({**dense, **scale}, tmp_path / "in.safetensors")
    checkpoint_tool.run("write", tmp_path / "in.safetensors", tmp_path, "compressed", "lm_head")

    state = load_file(tmp_path / "model.safetensors")
    for name, value in scale.items():
        assert torch.equal(state[name], value)
    skipped = ("weight_scale",)
    compressor = Sparse24BitMaskCompressor(config=sparsity_config())
    read = dict(compressor.decompress(str(tmp_path / "model.safetensors"), params_to_skip_load=skipped))
    assert set(read) == set(dense)
    for name, weight in dense.items():
        assert torch.equal(bits(read[name]), bits(plus_zero(weight))), name
        module = name.removesuffix(".weight")
        mask = state[module + ".bitmask"]
        # Every group of every row: two bits; and its own positions are the non-zeros'.
        columns = torch.stack([(mask >> bit) & 1 for bit in range(8)], dim=-1).flatten(1)
        assert (columns[:, :weight.shape[1]].reshape(weight.shape[0], -1, 4).sum(-1) == 2).all()
        assert (columns[:, weight.shape[1]:] == 0).all()
        assert (columns[:, :weight.shape[1]].bool() | (weight.float() == 0)).all()
        assert state[module + ".shape"].tolist() == [[size] for size in weight.shape]
        stored = sum(state[f"{module}.{part}"].nbytes for part in ("compressed", "bitmask"))
        assert stored == weight.numel() // 2 * weight.element_size() + weight.shape[0] * -(-weight.shape[1] // 8)


@pytest.mark.parametrize("sparse,quantized", [(True, True), (True, False), (False, True)])
def test_config_is_what_compressed_tensors_writes(tmp_path, sparse, quantized):
    weight = two_four(8, 16, torch.float8_e4m3fn if quantized else torch.bfloat16, 0)
    tensors = {"a.weight": weight}
    if quantized:
        tensors["a.weight_scale"] = scales(8, torch.bfloat16, 0)
    save_file(tensors, tmp_path / "in.safetensors")
    checkpoint_tool.run("write", tmp_path / "in.safetensors", tmp_path, "compressed" if sparse else "dense", "lm_head")
    ours = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    write_config(tmp_path, sparse, quantized)
    theirs = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    if not sparse:
        assert theirs.pop("sparsity_config") == {}  # other programs stumble over the key
    assert ours == theirs
    parsed = ModelCompressor.from_compression_config(ours)
    assert (parsed.sparsity_config is not None) == sparse
    assert (parsed.quantization_config is not None) == quantized


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_dense_form_holds_plain_weights(tmp_path, kind):
    weight = two_four(16, 64, DTYPES[kind], 3)
    tensors = {"a.weight": weight}
    if kind == "fp8":
        tensors["a.weight_scale"] = scales(16, torch.bfloat16, 0)
    save_file(tensors, tmp_path / "in.safetensors")
    checkpoint_tool.run("write", tmp_path / "in.safetensors", tmp_path, "dense")
    state = load_file(tmp_path / "model.safetensors")
    assert set(state) == set(tensors)
    assert torch.equal(bits(state["a.weight"]), bits(plus_zero(weight)))


def test_a_third_non_zero_is_named(tmp_path):
    weight = two_four(8, 16, torch.bfloat16, 0)
    weight[5, 8:12] = torch.tensor([1.0, 2.0, 3.0, 0.0])
    save_file({"a.weight": weight}, tmp_path / "in.safetensors")
    message = checkpoint_tool.run("write", tmp_path / "in.safetensors", tmp_path, "compressed", status=2)
    assert "tensor 'a.weight': row 5, group 2 (columns 8 to 11): weights 1, 2, 3, 0" in message
    assert not (tmp_path / "model.safetensors").exists()


def test_patterns_match_as_re_match_does(tmp_path):
    generator = random.Random(0)
    pieces = [r"model", r"\.", r"layers", r"(?:q|k|v)_proj", r"\d+", r".*", r"[a-z_]+", r"[^.]*", r"(0|1|12)", r"lm_head",
              r"$", r"^", r"x?", r"a{1,2}", r"\w", r"(mlp|self_attn)"]
    names = ["lm_head", "model.layers.0.self_attn.q_proj", "model.layers.12.mlp.up_proj", "model.norm", "a", "", "aax.lm_head"]
    patterns = ["".join(generator.choices(pieces, k=generator.randint(1, 5))) for _ in range(1000)]
    pairs = [(pattern, name) for pattern in patterns for name in names]
    (tmp_path / "pairs.json").write_text(json.dumps(pairs))
    ours = checkpoint_tool.run("match", tmp_path / "pairs.json").split()
    wrong = [pair for pair, answer in zip(pairs, ours, strict=True) if int(answer) != (re.match(*pair) is not None)]
    assert not wrong
