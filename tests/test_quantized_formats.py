"""Integer, block-scaled and older sparse forms exchanged with compressed-tensors 0.14.0.1: equal bit for bit."""

import json
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("compressed_tensors")
from compressed_tensors.compressors import (BitmaskCompressor, IntQuantizationCompressor, Marlin24Compressor,
                                            NaiveQuantizationCompressor, PackedQuantizationCompressor,
                                            Sparse24BitMaskCompressor)
from compressed_tensors.compressors.quantized_compressors.pack_quantized import pack_to_int32
from compressed_tensors.config import BitmaskConfig
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize, quantize
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file

import checkpoint_tool
from test_compressed_tensors import bits, module_arguments, plus_zero, sparsity_config, two_four

SHAPES = {"a": (4, 8), "b": (16, 12), "model.layers.0.mlp.up_proj": (33, 132), "d": (128, 512)}
WIDE = {"a": (64, 256), "b": (128, 384), "c": (192, 1024)}


def dense(rows, cols, dtype, seed):
    return torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed)).to(dtype)


def arguments(num_bits, strategy, **more):
    return QuantizationArgs(num_bits=num_bits, type=more.pop("type", "int"), strategy=strategy,
                            symmetric=more.pop("symmetric", True), observer="minmax", **more)


def modules(shapes):
    return [f"{name}:{rows}x{cols}" for name, (rows, cols) in shapes.items()]


def scales_of(weight, args):
    """compressed-tensors' own scales and zero points."""
    if args.strategy == "tensor":
        low, high = weight.amin().reshape(1), weight.amax().reshape(1)
    elif args.strategy == "channel":
        low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    else:
        grouped = weight.unflatten(1, (-1, args.group_size))
        low, high = grouped.amin(-1), grouped.amax(-1)
    return calculate_qparams(low, high, args)


def config(path, args, format_name, inputs=None, sparsity=None, key="quantization_config"):
    scheme = QuantizationScheme(targets=["Linear"], format=format_name, weights=args, input_activations=inputs)
    written = QuantizationConfig(config_groups={"group_0": scheme}, format=format_name,
                                 quantization_status="compressed", ignore=["lm_head"]).model_dump(mode="json")
    written["quant_method"] = "compressed-tensors"
    if sparsity is not None:
        written["sparsity_config"] = sparsity
    (path / "config.json").write_text(json.dumps({key: written}))


def dequantized(path, shapes):
    checkpoint_tool.run("dequantize", path, path / "out.safetensors", *modules(shapes))
    return load_file(path / "out.safetensors")


def check_equal(path, shapes, expected):
    out = dequantized(path, shapes)
    for name, weight in expected.items():
        assert out[f"{name}.weight"].dtype == weight.dtype
        assert torch.equal(out[f"{name}.weight"], weight), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("strategy,symmetric", [("channel", True), ("tensor", True), ("group", True), ("channel", False),
                                                ("tensor", False), ("group", False)])
def test_int_quantized(tmp_path, dtype, strategy, symmetric):
    args = arguments(8, strategy, symmetric=symmetric, group_size=4 if strategy == "group" else None)
    state, expected = {}, {}
    for seed, (name, shape) in enumerate(SHAPES.items()):
        weight = dense(*shape, dtype, seed)
        scale, zero = scales_of(weight, args)
        stored = IntQuantizationCompressor().compress_weight(weight, scale, args, zero_point=zero)["weight"]
        state |= {f"{name}.weight": stored, f"{name}.weight_scale": scale, f"{name}.weight_zero_point": zero}
        expected[name] = dequantize(stored, scale, zero, args)
    save_file(state, tmp_path / "model.safetensors")
    config(tmp_path, args, "int-quantized", arguments(8, "token", dynamic=True))
    check_equal(tmp_path, SHAPES, expected)


@pytest.mark.parametrize("num_bits", [4, 8])
@pytest.mark.parametrize("strategy,symmetric,order", [("channel", True, False), ("group", True, False),
                                                      ("channel", False, False), ("group", False, False),
                                                      ("group", True, True), ("group", False, True)])
def test_pack_quantized(tmp_path, num_bits, strategy, symmetric, order):
    args = arguments(num_bits, strategy, symmetric=symmetric, group_size=4 if strategy == "group" else None,
                     actorder="group" if order else None)
    compressor = PackedQuantizationCompressor()
    state, expected = {}, {}
    for seed, (name, (rows, cols)) in enumerate(SHAPES.items()):
        weight = dense(rows, cols, torch.bfloat16, seed)
        index = torch.randperm(cols, generator=torch.Generator().manual_seed(seed)).int() // 4 if order else None
        grouped = weight if index is None else weight[:, torch.argsort(index)]
        scale, zero = scales_of(grouped, args)
        stored = compressor.compress_weight(weight, scale, args, zero_point=zero, g_idx=index)
        stored["weight_scale"] = scale
        if index is not None:
            stored["weight_g_idx"] = index
        state |= {f"{name}.{key}": value.contiguous() for key, value in stored.items()}
        expected[name] = compressor.decompress_weight(dict(stored), args)
    save_file(state, tmp_path / "model.safetensors")
    config(tmp_path, args, "pack-quantized")
    check_equal(tmp_path, SHAPES, expected)


def test_an_order_that_was_never_set_is_column_order(tmp_path):
    args = arguments(4, "group", group_size=4)
    weight = dense(8, 16, torch.bfloat16, 0)
    scale, zero = scales_of(weight, args)
    compressor = PackedQuantizationCompressor()
    stored = compressor.compress_weight(weight, scale, args, zero_point=zero)
    stored |= {"weight_scale": scale, "weight_g_idx": torch.full((16,), -1, dtype=torch.int32)}
    save_file({f"a.{key}": value for key, value in stored.items()}, tmp_path / "model.safetensors")
    config(tmp_path, args, "pack-quantized")
    check_equal(tmp_path, {"a": (8, 16)}, {"a": compressor.decompress_weight(dict(stored), args)})


def test_the_packing_of_the_documented_example():
    values = torch.tensor([[-8, -1, 0, 7, 1, 2, 3, -4]], dtype=torch.int8)
    assert pack_to_int32(values, 4).item() == 0x4BA9F870


@pytest.mark.parametrize("rows,cols", [(4, 8), (33, 132), (128, 512)])
def test_float8_block_scales(tmp_path, rows, cols):
    args = arguments(8, "block", type="float", block_structure=[16, 24])
    weight = dense(rows, cols, torch.bfloat16, 0)
    scale = torch.rand(-(-rows // 16), -(-cols // 24), generator=torch.Generator().manual_seed(1)).to(torch.bfloat16) + 0.01
    stored = NaiveQuantizationCompressor().compress_weight(weight, scale, args)["weight"].contiguous()
    save_file({"a.weight": stored, "a.weight_scale": scale}, tmp_path / "model.safetensors")
    config(tmp_path, args, "float-quantized", arguments(8, "group", type="float", dynamic=True, group_size=128))
    check_equal(tmp_path, {"a": (rows, cols)}, {"a": dequantize(stored, scale, None, args)})


@pytest.mark.parametrize("num_bits", [4, 8])
@pytest.mark.parametrize("strategy", ["channel", "group"])
def test_marlin_24_of_compressed_tensors(tmp_path, num_bits, strategy):
    args = arguments(num_bits, strategy, group_size=128 if strategy == "group" else None)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    state, expected = {}, {}
    for seed, (name, shape) in enumerate(WIDE.items()):
        weight = plus_zero(two_four(*shape, torch.float16, seed))
        scale, _ = scales_of(weight.float(), args)
        scale = scale.half()
        state |= {f"{name}.weight": weight, f"{name}.weight_scale": scale}
        expected[name] = dequantize(quantize(weight, scale, None, args), scale, None, args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packed = Marlin24Compressor().compress(state, {name: scheme for name in WIDE})
    save_file({name: value.contiguous() for name, value in packed.items()}, tmp_path / "model.safetensors")
    config(tmp_path, args, "marlin-24", sparsity={"format": "dense", "global_sparsity": 0.456, "sparsity_structure": "2:4",
                                                  "targets": ["Linear"], "ignore": ["lm_head"]})
    check_equal(tmp_path, WIDE, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn])
def test_sparse_bitmask(tmp_path, dtype):
    state = {}
    for seed, (name, (rows, cols)) in enumerate(SHAPES.items()):
        keep = torch.rand(rows, cols, generator=torch.Generator().manual_seed(seed)) < 0.3
        state[f"{name}.weight"] = torch.where(keep, dense(rows, cols, torch.float32, seed), 0.0).to(dtype)
    sparse = BitmaskConfig(global_sparsity=0.7, sparsity_structure="unstructured", targets=["Linear"], ignore=[])
    packed = BitmaskCompressor(config=sparse).compress(state)
    scale = {}
    if dtype == torch.float8_e4m3fn:
        scale = {f"{name}.weight_scale": torch.ones(shape[0], 1) for name, shape in SHAPES.items()}
        config(tmp_path, arguments(8, "channel", type="float"), "float-quantized", key="compression_config",
               sparsity={"format": "sparse-bitmask", "sparsity_structure": "unstructured", "global_sparsity": 0.7})
    else:
        (tmp_path / "config.json").write_text(json.dumps({"sparsity_config": sparse.model_dump(mode="json")}))
    save_file(packed | scale, tmp_path / "model.safetensors")
    checkpoint_tool.run("read", tmp_path, tmp_path / "out.safetensors", *module_arguments())
    out = load_file(tmp_path / "out.safetensors")
    for name, weight in state.items():
        assert torch.equal(bits(out[name]), bits(plus_zero(weight))), name


def write_ours(tmp_path, shapes, dtype, num_bits, group, encoding):
    weights = {f"{name}.weight": plus_zero(two_four(*shape, dtype, seed)) for seed, (name, shape) in enumerate(shapes.items())}
    save_file(weights, tmp_path / "in.safetensors")
    checkpoint_tool.run("quantize", tmp_path / "in.safetensors", tmp_path, num_bits, group, encoding)
    parsed = QuantizationConfig.model_validate(
        {key: value for key, value in json.loads((tmp_path / "config.json").read_text())["quantization_config"].items()
         if key not in ("sparsity_config", "transform_config", "version")})
    return weights, load_file(tmp_path / "model.safetensors"), parsed.config_groups["group_0"]


def expected_values(weight, args):
    """float32 weights: compressed-tensors' own scales and rounding."""
    scale, _ = scales_of(weight, args)
    return quantize(weight, scale, None, args, dtype=torch.int8), scale


@pytest.mark.parametrize("num_bits", [4, 8])
@pytest.mark.parametrize("group", [0, 4])
def test_compressed_tensors_reads_the_packed_integers_that_we_write(tmp_path, num_bits, group):
    weights, state, scheme = write_ours(tmp_path, SHAPES, torch.float32, num_bits, group, "packed")
    assert scheme.weights.num_bits == num_bits and scheme.weights.strategy == ("group" if group else "channel")
    compressor = PackedQuantizationCompressor()
    read = dict(compressor.decompress(str(tmp_path / "model.safetensors"), {name: scheme for name in SHAPES}))
    assert set(read) == set(SHAPES)
    for name in SHAPES:
        values, scale = expected_values(weights[f"{name}.weight"], scheme.weights)
        assert torch.equal(state[f"{name}.weight_scale"], scale)
        theirs = compressor.compress_weight(weights[f"{name}.weight"], scale, scheme.weights)
        assert torch.equal(state[f"{name}.weight_packed"], theirs["weight_packed"])
        assert torch.equal(state[f"{name}.weight_shape"], theirs["weight_shape"])
        assert torch.equal(read[name]["weight"], dequantize(values, scale, None, scheme.weights))
    check_equal(tmp_path, SHAPES, {name: read[name]["weight"] for name in SHAPES})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("encoding", ["plain", "bitmask"])
def test_compressed_tensors_reads_the_int8_that_we_write(tmp_path, dtype, encoding):
    weights, state, scheme = write_ours(tmp_path, SHAPES, dtype, 8, 0, encoding)
    assert scheme.input_activations.dynamic and scheme.input_activations.strategy == "token"
    if encoding == "bitmask":
        compressor = Sparse24BitMaskCompressor(config=sparsity_config())
        dense_state = dict(compressor.decompress(str(tmp_path / "model.safetensors"), params_to_skip_load=("weight_scale",)))
    else:
        dense_state = state
    for name in SHAPES:
        weight = weights[f"{name}.weight"]
        values, scale = expected_values(weight, scheme.weights)
        assert torch.equal(state[f"{name}.weight_scale"], scale)
        ours = dense_state[f"{name}.weight"]
        assert ours.dtype == torch.int8
        # In bfloat16 compressed-tensors rounds the quotient before it rounds to an integer; here the quotient is float32.
        exact = (weight.float() / scale.float()).round().clamp(-128, 127).to(torch.int8)
        assert torch.equal(ours, exact)
        if dtype == torch.float32:
            assert torch.equal(ours, values)
        assert torch.equal(ours != 0, exact != 0)


@pytest.mark.parametrize("num_bits", [4, 8])
@pytest.mark.parametrize("group", [0, 128])
def test_our_marlin_24_is_compressed_tensors_own(tmp_path, num_bits, group):
    weights, state, scheme = write_ours(tmp_path, WIDE, torch.float16, num_bits, group, "marlin-24")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = {}
        for name in WIDE:
            weight = weights[f"{name}.weight"]
            scale = scales_of(weight.float(), scheme.weights)[0].half()
            # float32 quotients, as here; times the scale they round back to the same integers
            values = quantize(weight.float(), scale.float(), None, scheme.weights)
            source |= {f"{name}.weight": dequantize(values.half(), scale, None, scheme.weights), f"{name}.weight_scale": scale}
        theirs = Marlin24Compressor().compress(source, {name: scheme for name in WIDE})
    assert set(theirs) == set(state)
    for name in WIDE:
        assert torch.equal(state[f"{name}.scale_packed"], theirs[f"{name}.scale_packed"])
    # A group with fewer than two non-zeros may keep other zeros: compare what both stand for.
    ours = dequantized(tmp_path, WIDE)
    save_file({name: value.contiguous() for name, value in theirs.items()}, tmp_path / "model.safetensors")
    read = dequantized(tmp_path, WIDE)
    for name in read:
        assert torch.equal(ours[name], read[name]), name


def hostile(tmp_path, change):
    """A pack-quantized file with groups, an order and zero points; spoilt by `change`."""
    args = arguments(4, "group", symmetric=False, group_size=4, actorder="group")
    weight = dense(8, 16, torch.bfloat16, 0)
    index = torch.arange(16, dtype=torch.int32) % 4
    scale, zero = scales_of(weight, args)
    stored = PackedQuantizationCompressor().compress_weight(weight, scale, args, zero_point=zero, g_idx=index)
    state = {f"a.{key}": value.contiguous() for key, value in stored.items()}
    state |= {"a.weight_scale": scale, "a.weight_g_idx": index}
    change(state)
    save_file(state, tmp_path / "model.safetensors")
    config(tmp_path, args, "pack-quantized")
    return checkpoint_tool.run("dequantize", tmp_path, tmp_path / "out.safetensors", "a:8x16", status=2)


@pytest.mark.parametrize("change,message", [
    (lambda s: s.update({"a.weight_packed": s["a.weight_packed"][:, :1].contiguous()}), "expected [8, 2], got [8, 1]"),
    (lambda s: s.update({"a.weight_packed": s["a.weight_packed"].long()}), "expected int32, got int64"),
    (lambda s: s.update({"a.weight_shape": torch.tensor([8, 1 << 40])}), "expected a weight of [8, 16], got [8, 1099511627776]"),
    (lambda s: s.update({"a.weight_shape": torch.tensor([8])}), "expected [2] or [2, 1], got [1]"),
    (lambda s: s.update({"a.weight_scale": s["a.weight_scale"][:, :3].contiguous()}), "expected [8, 4], got [8, 3]"),
    (lambda s: s["a.weight_scale"].index_put_((torch.tensor(3), torch.tensor(2)), torch.tensor(float("nan"), dtype=torch.bfloat16)),
     "the scale of row 3, group 2 is nan"),
    (lambda s: s["a.weight_scale"].fill_(-1), "the scale of row 0, group 0 is -1"),
    (lambda s: s.pop("a.weight_zero_point"), "a.weight_zero_point"),
    (lambda s: s.update({"a.weight_zero_point": s["a.weight_zero_point"][:, :2].contiguous()}), "expected [1, 4], got [1, 2]"),
    (lambda s: s["a.weight_g_idx"].index_fill_(0, torch.tensor(5), 4), "column 5 is in group 4, but there are 4"),
    (lambda s: s["a.weight_g_idx"].index_fill_(0, torch.tensor(5), -7), "column 5 is in group -7"),
    (lambda s: s["a.weight_g_idx"].index_fill_(0, torch.tensor(5), 0), "group 0 has 5 columns, not 4"),
    (lambda s: s.pop("a.weight_g_idx"), "actorder"),
    (lambda s: s.update({"a.weight": torch.zeros(8, 16)}), "the module has both this and"),
    (lambda s: s.update({"a.meta": torch.zeros(1, dtype=torch.int16)}), "the weight is marlin-24, but config.json says that it is pack-quantized"),
])
def test_hostile_packed_files_are_refused(tmp_path, change, message):
    line = hostile(tmp_path, change)
    assert message in line and line.count("\n") == 1


@pytest.mark.parametrize("change,message", [
    (lambda s: s.update({"a.row_offsets": s["a.row_offsets"].flip(0).contiguous()}), "begins at value"),
    (lambda s: s.update({"a.row_offsets": s["a.row_offsets"] * (1 << 40)}), "begins at value"),
    (lambda s: s.update({"a.bitmask": s["a.bitmask"] | 1}), "row 1 begins at value"),
    (lambda s: s.update({"a.bitmask": s["a.bitmask"] | 0xF0}), "keeps"),
    (lambda s: s.update({"a.compressed": s["a.compressed"][:-1].contiguous()}), "expected ["),
    (lambda s: s["a.compressed"].fill_(float("inf")), "is NaN or infinite"),
    (lambda s: s.update({"a.shape": torch.tensor([12, 9])}), "expected a weight of [9, 12], got [12, 9]"),
])
def test_hostile_bitmask_files_are_refused(tmp_path, change, message):
    weight = torch.where(dense(9, 12, torch.float32, 0) > 0.5, 1.5, 0.0)
    sparse = BitmaskConfig(global_sparsity=0.7, sparsity_structure="unstructured", targets=["Linear"], ignore=[])
    state = BitmaskCompressor(config=sparse).compress({"a.weight": weight})
    change(state)
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"sparsity_config": sparse.model_dump(mode="json")}))
    line = checkpoint_tool.run("read", tmp_path, tmp_path / "out.safetensors", "a:9x12", status=2)
    assert message in line and line.count("\n") == 1


@pytest.fixture(scope="module")
def marlin_24(tmp_path_factory):
    path = tmp_path_factory.mktemp("marlin_24")
    write_ours(path, {"a": (64, 256)}, torch.float16, 4, 128, "marlin-24")
    return path


@pytest.mark.parametrize("change,message", [
    (lambda s: s["a.meta"].zero_(), "is not two ascending columns"),
    (lambda s: s["a.meta"].index_put_((torch.tensor(3), torch.tensor(7)), torch.tensor(-1, dtype=torch.int16)), "is not two ascending columns"),
    (lambda s: s.update({"a.meta": s["a.meta"].T.contiguous()}), "expected [8, 128], got [128, 8]"),
    (lambda s: s.update({"a.scale_packed": s["a.scale_packed"].float()}), "expected float16, got float32"),
    (lambda s: s["a.scale_packed"].fill_(float("inf")), "the scale of row 0"),
    (lambda s: s.update({"a.weight_packed": s["a.weight_packed"][:4].contiguous()}), "expected [8, 128], got [4, 128]"),
    (lambda s: s.pop("a.meta"), "a.meta"),
])
def test_hostile_marlin_24_files_are_refused(marlin_24, tmp_path, change, message):
    state = load_file(marlin_24 / "model.safetensors")
    change(state)
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((marlin_24 / "config.json").read_text())
    line = checkpoint_tool.run("dequantize", tmp_path, tmp_path / "out.safetensors", "a:64x256", status=2)
    assert message in line and line.count("\n") == 1


def test_marlin_24_of_other_shapes_is_refused(marlin_24, tmp_path):
    line = checkpoint_tool.run("dequantize", marlin_24, tmp_path / "out.safetensors", "a:32x512", status=2)
    assert "multiples of 64 rows" in line
