"""Loading holds the packed weights once: a 2 GB synthetic 2:4 FP8 checkpoint runs in about 2 GB."""
import json
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tiny_model
from conftest import GRILLE

CONFIG = tiny_model.CONFIG | {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                              "num_key_value_heads": 8, "head_dim": 128, "torch_dtype": "bfloat16"}
NIBBLES = torch.tensor([0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100], dtype=torch.uint8)


def fp8_linear(generator: torch.Generator, rows: int, cols: int) -> dict[str, torch.Tensor]:
    nibbles = NIBBLES[torch.randint(0, 6, (rows, cols // 4), generator=generator)]
    values = torch.randint(0, 0x40, (rows, cols // 2), generator=generator, dtype=torch.uint8)  # finite, up to 2
    return {
        "compressed": values.view(torch.float8_e4m3fn),
        "bitmask": nibbles[:, 0::2] | nibbles[:, 1::2] << 4,
        "shape": torch.tensor([[rows], [cols]]),
        "weight_scale": torch.full((rows, 1), 1 / 512, dtype=torch.bfloat16),
    }


def layer_tensors(generator: torch.Generator, index: int) -> dict[str, torch.Tensor]:
    hidden, inter = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (1024, hidden),
              "self_attn.v_proj": (1024, hidden), "self_attn.o_proj": (hidden, hidden),
              "mlp.gate_proj": (inter, hidden), "mlp.up_proj": (inter, hidden), "mlp.down_proj": (hidden, inter)}
    prefix = f"model.layers.{index}."
    tensors = {prefix + f"{name}.{suffix}": tensor for name, (rows, cols) in shapes.items()
               for suffix, tensor in fp8_linear(generator, rows, cols).items()}
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[prefix + name + ".weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    return tensors


def make_checkpoint(out: Path, layers: int) -> int:
    """Writes a model with one shard a layer; returns the bytes of its compressed weights."""
    out.mkdir()
    config = CONFIG | {"num_hidden_layers": layers}
    group = {"targets": ["Linear"],
             "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False},
             "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True,
                                   "dynamic": True}}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
        "ignore": ["lm_head"], "config_groups": {"group_0": group},
        "sparsity_config": {"format": "sparse-24-bitmask", "sparsity_structure": "2:4", "targets": ["Linear"],
                            "ignore": ["lm_head"]}}
    (out / "config.json").write_text(json.dumps(config))
    tiny_model.byte_tokenizer().save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    generator = torch.Generator().manual_seed(0)
    weight_map, packed = {}, 0
    frame = {"model.embed_tokens.weight": (torch.randn((257, 4096), generator=generator) / 64).bfloat16(),
             "model.norm.weight": torch.ones(4096, dtype=torch.bfloat16)}
    for index in range(-1, layers):
        tensors = frame if index < 0 else layer_tensors(generator, index)
        name = f"model-{index + 2:05}-of-{layers + 1:05}.safetensors"
        save_file(tensors, out / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        packed += sum(t.nbytes for key, t in tensors.items() if key.endswith((".compressed", ".bitmask")))
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return packed


def peak_anonymous(*arguments) -> int:
    """Highest RssAnon of a command, looked at every 2 ms."""
    process = subprocess.Popen([str(GRILLE), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.002)
    assert process.wait() == 0, process.stderr.read()
    return peak


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    one, all_layers = 1, 16
    small = make_checkpoint(folder / "one", one)
    large = make_checkpoint(folder / "all", all_layers)
    assert large > 2e9
    yield folder / "one", folder / "all", large - small
    for file in folder.rglob("*.safetensors"):  # 2 GB need not stay until pytest cleans up
        file.unlink()


def test_generate_holds_the_packed_weights_once(checkpoints):
    one, all_layers, packed = checkpoints
    command = ("generate", "--prompt", "abc", "--max-tokens", 2)
    extra = peak_anonymous(command[0], all_layers, *command[1:]) - peak_anonymous(command[0], one, *command[1:])
    assert 0.9 * packed < extra <= 1.1 * packed


def test_perplexity_holds_the_packed_weights_once(checkpoints, tmp_path):
    one, all_layers, packed = checkpoints
    text = tiny_model.calibration_file(tmp_path / "text.txt")
    options = ("--text", text, "--context", 32, "--max-tokens", 32)
    extra = (peak_anonymous("eval", "perplexity", all_layers, *options)
             - peak_anonymous("eval", "perplexity", one, *options))
    assert 0.9 * packed < extra <= 1.1 * packed
