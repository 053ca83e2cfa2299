"""Whole models in the forms of other and older programs: they load, are found to be 2:4, and are rewritten."""
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import tiny_model
from conftest import run_grille

compressors = pytest.importorskip("compressed_tensors.compressors")

CONTEXT = 64
CONFIG = tiny_model.CONFIG | {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32, "torch_dtype": "bfloat16"}
TEXT = "The quick brown fox jumps over the lazy dog. " * 3
SLOTS = 7


def two_four(weight):
    groups = weight.reshape(weight.shape[0], -1, 4)
    kept = groups.abs().argsort(-1, descending=True).argsort(-1) < 2
    return torch.where(kept, groups, 0).reshape(weight.shape)


def is_linear(name):
    return "_proj." in name


@pytest.fixture(scope="module")
def state():
    """A bfloat16 model whose linear layers are 2:4, with their zeros: what most published 2of4 files hold."""
    tensors = {name: torch.tensor(value).bfloat16() for name, value in tiny_model.random_tensors(CONFIG).items()}
    return {name: two_four(value) if is_linear(name) else value for name, value in tensors.items()}


def write(folder, state, quantization=None):
    config = CONFIG | ({} if quantization is None else quantization)
    tiny_model.make_directory(folder, config, {"overwritten": np.zeros(1, np.float32)})
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def group(format_name, weights, inputs=None, targets=("Linear",)):
    return {"targets": list(targets), "format": format_name, "weights": weights, "input_activations": inputs}


def quantization(*groups, **more):
    return {"quant_method": "compressed-tensors", "format": groups[0]["format"], "ignore": ["lm_head"],
            "config_groups": {f"group_{i}": g for i, g in enumerate(groups)}, **more}


FP8 = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
FP8_TOKENS = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 64, "symmetric": True}


def to_fp8(state, block=None):
    result = {}
    for name, value in state.items():
        if not is_linear(name):
            result[name] = value
            continue
        if block is None:
            scale = (value.float().abs().amax(1, keepdim=True) / 448).bfloat16()
            full = scale.float()
        else:
            blocks = value.float().unflatten(0, (-1, block)).unflatten(2, (-1, block))
            scale = (blocks.abs().amax((1, 3)) / 448).bfloat16()
            full = scale.float().repeat_interleave(block, 0).repeat_interleave(block, 1)
        result[name] = (value.float() / full).clamp(-448, 448).to(torch.float8_e4m3fn)
        result[name.replace(".weight", ".weight_scale")] = scale
    return result


def to_bitmask(state):
    compressor = compressors.BitmaskCompressor(config=None)
    linears = {name: value for name, value in state.items() if is_linear(name) and name.endswith(".weight")}
    return {name: value for name, value in state.items() if name not in linears} | compressor.compress(linears)


def older_form(kind, state):
    """The tensors and the keys of config.json."""
    dense = {"format": "dense", "sparsity_structure": "2:4", "global_sparsity": 0.5, "targets": ["Linear"], "ignore": ["lm_head"],
             "registry_requires_subclass": False}
    bitmask = dense | {"format": "sparse-bitmask", "sparsity_structure": "unstructured"}
    fp8 = group("float-quantized", FP8, FP8_TOKENS)
    if kind == "bfloat16 with zeros":
        return state, {}
    if kind == "sparsity_config dense":
        return state, {"sparsity_config": dense}
    if kind == "sparse-bitmask":
        return to_bitmask(state), {"compression_config": {"sparsity_config": bitmask}}
    if kind == "float8 with zeros":
        return to_fp8(state), {"quantization_config": quantization(fp8, sparsity_config={})}
    if kind == "float8, compression_config":
        return to_fp8(state), {"compression_config": quantization(fp8, sparsity_config=dense)}
    if kind == "float8 in sparse-bitmask":
        return to_bitmask(to_fp8(state)), {"quantization_config": quantization(fp8, sparsity_config=bitmask)}
    if kind == "float8 block scales":
        block = group("float-quantized", FP8 | {"strategy": "block", "block_structure": [32, 32]},
                      FP8_TOKENS | {"strategy": "group", "group_size": 32})
        return to_fp8(state, 32), {"quantization_config": quantization(block)}
    mixed = {name: value for name, value in to_fp8(state).items() if "mlp" in name or not is_linear(name)}
    mixed |= {name: value for name, value in state.items() if "self_attn" in name}
    targets = ["re:.*mlp.*"]
    return mixed, {"quantization_config": quantization(group("float-quantized", FP8, FP8_TOKENS, targets))}


KINDS = ["bfloat16 with zeros", "sparsity_config dense", "sparse-bitmask", "float8 with zeros", "float8, compression_config",
         "float8 in sparse-bitmask", "float8 block scales", "mixed"]


def nll(folder, *options):
    text = folder.parent / "text"
    text.write_text(TEXT)
    run = run_grille("eval", "perplexity", folder, "--text", text, "--context", CONTEXT, "--max-tokens", CONTEXT, "--json",
                     *options)
    return run.json["nll_sum"], run.stderr


def stored_values(folder):
    """What compressed-tensors makes of the linear layers."""
    state = load_file(folder / "model.safetensors")
    sparse = compressors.Sparse24BitMaskCompressor(config=None)
    result = {}
    for name in state:
        if name.endswith(".compressed"):
            module = name.removesuffix(".compressed")
            parts = {part: state[f"{module}.{part}"] for part in ("compressed", "bitmask", "shape")}
            result[f"{module}.weight"] = sparse.decompress_weight(parts)
        elif is_linear(name) and name.endswith(".weight"):
            result[name] = state[name]
    return result, state


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_checkpoint_loads_as_two_four_and_is_compacted(kind, state, tmp_path):
    tensors, keys = older_form(kind, state)
    folder = write(tmp_path / "old", tensors, keys)
    layers = {layer["name"]: layer for layer in run_grille("inspect", folder, "--json").json["layers"]}
    linears = [layer for name, layer in layers.items() if "_proj" in name]
    assert len(linears) == SLOTS * CONFIG["num_hidden_layers"]
    assert all(layer["two_four"] and layer["violations"] == 0 for layer in linears)

    expected, log = nll(folder, "--activations", "full")
    assert f"{len(linears)} linear layers are 2:4 and stored with their zeros" in log
    compact = tmp_path / "compact"
    run_grille("convert", folder, "-o", compact)
    # The same weights in the same kernels: the same sums.
    assert nll(compact, "--activations", "full")[0] == expected
    values, written = stored_values(compact)
    assert not any(is_linear(name) and name.endswith(".weight") for name in written)
    for name, value in values.items():
        original = tensors.get(name)
        if original is None:  # sparse-bitmask holds the values elsewhere
            original = (to_fp8(state) if "float8" in kind else state)[name]
        assert value.dtype == original.dtype and torch.equal(value.float(), original.float()), name
        scale = name.replace(".weight", ".weight_scale")
        if scale in tensors:
            assert torch.equal(written[scale].flatten(), tensors[scale].flatten())
    sparsity = json.loads((compact / "config.json").read_text())["quantization_config"]["sparsity_config"]
    assert sparsity["format"] == "sparse-24-bitmask"

    run_grille("convert", compact, "-o", tmp_path / "dense", "--format", "dense", "--dtype", "float32")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "dense", dtype=torch.float32).eval()
    weight = model.model.layers[1].mlp.up_proj.weight
    assert (weight.reshape(-1, 4).ne(0).sum(1) <= 2).all()


def test_a_weight_that_is_not_two_four_stays_dense_and_is_counted(state, tmp_path):
    tensors = dict(state)
    name = "model.layers.1.mlp.up_proj"
    spoilt = tensors[name + ".weight"].clone()
    spoilt[3, 8:12] = 1.0
    tensors[name + ".weight"] = spoilt
    _, keys = older_form("sparsity_config dense", state)
    folder = write(tmp_path / "old", tensors, keys)
    layers = {layer["name"]: layer for layer in run_grille("inspect", folder, "--json").json["layers"]}
    assert not layers[name]["two_four"] and layers[name]["violations"] == 1
    run_grille("convert", folder, "-o", tmp_path / "compact")
    written = load_file(tmp_path / "compact" / "model.safetensors")
    assert torch.equal(written[name + ".weight"], spoilt)
    assert "model.layers.0.mlp.up_proj.compressed" in written
    assert nll(tmp_path / "compact")[0] == nll(folder)[0]


def expected_nll(model):
    ids = torch.tensor([tiny_model.byte_tokenizer().encode(TEXT).ids[:CONTEXT]])
    with torch.no_grad():
        logprobs = model(ids).logits.double().log_softmax(-1)
    return -logprobs[0, :-1].gather(1, ids[0, 1:, None]).sum().item()


def exact_int8(tensors):
    """Integers times scales in float32, of weights that are dense or values and bitmask."""
    weights = {}
    for name, scale in tensors.items():
        module, suffix = name.rsplit(".", 1)
        if suffix != "weight_scale":
            continue
        if module + ".weight" in tensors:
            values = tensors[module + ".weight"].float()
        else:
            kept = torch.tensor(np.unpackbits(tensors[module + ".bitmask"].numpy(), axis=1, bitorder="little")).bool()
            values = torch.zeros(kept.shape)
            values[kept] = tensors[module + ".compressed"].float().flatten()
        weights[module + ".weight"] = values * scale.float()
    return weights


@pytest.mark.parametrize("quantize,options,format_name,sparse", [
    ("int8-dynamic", [], "int-quantized", True), ("int8-dynamic", [], "int-quantized", False),
    ("int4", ["--group-size", 64], "pack-quantized", True), ("int4", ["--group-size", 64], "pack-quantized", False),
    ("int4", ["--group-size", 128, "--format", "marlin-24"], "marlin-24", True),
    ("int4", ["--group-size", 0, "--format", "marlin-24"], "marlin-24", True)])
def test_integers_are_written_read_and_made_dense_again(quantize, options, format_name, sparse, state, tmp_path):
    source = state if sparse else {name: torch.tensor(value).bfloat16() for name, value in tiny_model.random_tensors(CONFIG).items()}
    folder = write(tmp_path / "model", source)
    run_grille("quantize", folder, "-o", tmp_path / "small", "--quantize", quantize, *options)
    layers = [layer for layer in run_grille("inspect", tmp_path / "small", "--json").json["layers"] if "_proj" in layer["name"]]
    assert {layer["format"].split("+")[-1] for layer in layers} == {format_name}
    assert {layer["two_four"] for layer in layers} == {sparse}

    # transformers computes in float32 with the weights dequantized; so does this program with inputs in full.
    run_grille("convert", tmp_path / "small", "-o", tmp_path / "dense", "--format", "dense", "--dtype", "float32")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "dense", dtype=torch.float32).eval()
    assert nll(tmp_path / "dense", "--dtype", "float32")[0] == pytest.approx(expected_nll(model), abs=2e-3)
    if quantize == "int8-dynamic":  # dequantization rounds to the scales' bfloat16, where kernels do not
        exact = exact_int8(load_file(tmp_path / "small" / "model.safetensors"))
        assert len(exact) == SLOTS * CONFIG["num_hidden_layers"]
        model.load_state_dict(exact, strict=False)
    got, _ = nll(tmp_path / "small", "--activations", "full", "--dtype", "float32")
    assert got == pytest.approx(expected_nll(model), abs=2e-3)

    # Rewriting keeps every stored number.
    run_grille("convert", tmp_path / "small", "-o", tmp_path / "again", *(options[-2:] if "--format" in options else []))
    first = load_file(tmp_path / "small" / "model.safetensors")
    second = load_file(tmp_path / "again" / "model.safetensors")
    assert set(first) == set(second)
    assert all(torch.equal(first[name].view(torch.uint8), second[name].view(torch.uint8)) for name in first)


@pytest.mark.parametrize("quantize,options", [("int8-dynamic", []), ("int4", ["--group-size", 64])])
def test_transformers_loads_the_integers(quantize, options, state, tmp_path):
    folder = write(tmp_path / "model", state)
    run_grille("quantize", folder, "-o", tmp_path / "small", "--quantize", quantize, "--format", "dense", *options)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "small", dtype=torch.float32).eval()
    expected = expected_nll(model)
    # int8 rounds inputs too, on each side after sums of another order. Loaded as float32, transformers dequantizes
    # int4 in float32, where it is rounded to the scales' bfloat16 here: 2^-9 a weight, random.
    got, _ = nll(tmp_path / "small", "--dtype", "float32")
    assert got == pytest.approx(expected, abs=0.5 if quantize == "int8-dynamic" else 0.1)


def test_options_that_do_not_fit(state, tmp_path):
    folder = write(tmp_path / "model", state)
    for options, message in [
        (["--quantize", "int4", "--group-size", 96], "q_proj: 128 input features are not a multiple of the group size 96"),
        (["--quantize", "fp8-dynamic", "--group-size", 64], "--group-size: belongs to --quantize int4"),
        (["--quantize", "int4", "--group-size", 64, "--format", "marlin-24"], "marlin-24 holds multiples of 64 rows"),
    ]:
        run = run_grille("quantize", folder, "-o", tmp_path / "out", *options, check=False)
        assert run.status != 0 and message in run.stderr and not (tmp_path / "out").exists(), run.stderr
