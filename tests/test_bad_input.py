"""Wrong input ends with status 2 and one line that says what and where; nothing half-written is left."""
import json
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tiny_model
from conftest import GRILLE, run_grille


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_model.make_directory(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    return tiny_model.calibration_file(tmp_path_factory.mktemp("text") / "words.txt")


def refused(*arguments, contains, **options):
    run = run_grille(*arguments, check=False, **options)
    assert run.status == 2, (run.status, run.stderr)
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1, run.stderr
    for text in [contains] if isinstance(contains, str) else contains:
        assert text in lines[0], lines[0]
    assert run.stdout == ""


def with_config(model, out, **changes):
    shutil.copytree(model, out)
    config = json.loads((model / "config.json").read_text()) | changes
    (out / "config.json").write_text(json.dumps(config))
    return out


def test_missing_files(tmp_path, model):
    refused("inspect", tmp_path / "nothing", contains="nothing: no such file")
    refused("inspect", "some-org/some-model", contains="hf download some-org/some-model")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused("inspect", empty, contains="config.json")
    shutil.copy(model / "config.json", empty)
    refused("inspect", empty, contains="model.safetensors")
    refused("eval", "perplexity", model, "--text", tmp_path / "no.txt", contains="no.txt")


def test_usage_errors(model, tmp_path):
    refused("generate", model, contains="--prompt")
    refused("generate", model, "--prompt", "x", "--temperature", "-1", contains="temperature")
    refused("generate", model, "--prompt", "", contains="no tokens")
    refused("eval", "perplexity", model, contains="--text")
    refused("generate", model, "--prompt", "x", "--device", "cuda", contains=["--device cuda", "no CUDA path"])
    refused("generate", model, "--prompt", "x", "--device", "tpu", contains="--device tpu")
    refused("prune", model, "-o", tmp_path / "o", "--pattern", "4:2", "--method", "magnitude", contains="--pattern 4:2")
    refused("prune", model, "-o", tmp_path / "o", "--sparsity", "0.7", "--method", "magnitude", contains="--sparsity")
    refused("prune", model, "-o", tmp_path / "o", contains="--calibration")
    refused("frobnicate", contains="frobnicate")
    refused("eval", "helm", model, contains=["eval helm", "eval mmlu", "eval perplexity"])


def test_bench_linear_refuses_what_it_cannot_measure():
    refused("bench", "linear", "--model", "gpt-2", contains=["--model gpt-2", "llama-3-8b"])
    refused("bench", "linear", "--shapes", "4096x17", contains="multiples of 16")
    refused("bench", "linear", "--shapes", "64x64", "--model", "llama-3-8b", contains="--model")
    refused("bench", "linear", "--m", "0", contains="--m")
    refused("bench", "linear", "--formats", "3:4-fp8", contains=["--formats", "2:4-fp8"])
    refused("bench", "linear", "--baselines", "mkl", contains=["--baselines", "cusparselt-fp8"])
    refused("bench", "linear", "--device", "cpu", contains="bench_linear")
    refused("bench", "linear", "--device", "cuda:x", contains="--device cuda:x")
    refused("bench", "linear", "--dtype", "float16", contains="--dtype")


def test_options_that_would_change_nothing(model, tmp_path, calibration):
    out = tmp_path / "o"
    refused("prune", model, "-o", out, "--method", "magnitude", "--damping", "0.1", contains="--damping")
    refused("prune", model, "-o", out, "--method", "magnitude", "--samples", 4, contains=["--samples", "--calibration"])
    refused("prune", model, "-o", out, "--method", "wanda", "--damping", "0.1", "--calibration", calibration,
            contains="--damping")
    refused("prune", model, "-o", out, "--calibration", calibration, "--damping", "nan", "--context", 64, "--samples", 2,
            "--quiet", contains="--damping nan")
    documents = tmp_path / "d.jsonl"
    documents.write_text('{"text": "some words"}\n')
    refused("eval", "perplexity", model, "--documents", documents, "--stride", 4, contains="--stride")
    refused("eval", "perplexity", model, "--text", calibration, "--stride", 0, contains="--stride")
    refused("eval", "perplexity", model, "--text", "/dev/zero", contains="/dev/zero")


def test_reports_do_not_replace_devices(model, tmp_path):
    (tmp_path / "device").symlink_to("/dev/null")
    refused("inspect", model, "--html", tmp_path / "device", contains="device")
    assert (tmp_path / "device").is_symlink()


@pytest.mark.parametrize("changes, contains", [
    ({"model_type": "gpt_oss"}, ["gpt_oss", "supported: llama"]),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ["yarn", "supported"]),
    ({"hidden_act": "gelu"}, "gelu"),
    ({"hidden_size": "64"}, "hidden_size"),
    ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
    ({"num_hidden_layers": 2**31 - 1}, "num_hidden_layers"),
    ({"max_position_embeddings": 0}, "max_position_embeddings"),
    ({"num_hidden_layers": 3}, "model.layers.2"),
    ({"num_hidden_layers": 1}, "model.layers.1"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"intermediate_size": 136}, "[132"),
    ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
    ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
    ({"vocab_size": 100}, "embed_tokens"),
])
def test_configurations_that_do_not_fit(model, tmp_path, changes, contains):
    broken = with_config(model, tmp_path / "model", **changes)
    refused("generate", broken, "--prompt", "x", contains=contains)


def test_a_tokenizer_of_another_model(tmp_path):
    config = tiny_model.CONFIG | {"vocab_size": 200}
    broken = tiny_model.make_directory(tmp_path / "model", config, tiny_model.random_tensors(config))
    refused("generate", broken, "--prompt", "x", contains=["tokenizer", "256", "199"])


def test_truncated_and_damaged_weights(model, tmp_path, calibration):
    data = (model / "model.safetensors").read_bytes()
    for cut in (0, 7, 100, len(data) // 2, len(data) - 1):
        broken = with_config(model, tmp_path / f"cut{cut}")
        (broken / "model.safetensors").write_bytes(data[:cut])
        refused("generate", broken, "--prompt", "x", contains="model.safetensors")
    for value in (np.nan, np.inf):
        tensors = load_file(model / "model.safetensors")
        tensors["model.layers.1.mlp.up_proj.weight"][5, 7] = value
        broken = tiny_model.make_directory(tmp_path / str(value), tensors=tensors)
        refused("prune", broken, "-o", tmp_path / "o", "--calibration", calibration, "--samples", 2, "--context", 64,
                "--quiet", contains="model.layers.1.mlp.up_proj")
        shutil.rmtree(tmp_path / "o.partial", ignore_errors=True)


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.0.input_layernorm.weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_small_tensors_that_are_not_finite(tmp_path, name, value):
    tensors = tiny_model.random_tensors()
    tensors[name][3] = value
    broken = tiny_model.make_directory(tmp_path / "model", tensors=tensors)
    refused("generate", broken, "--prompt", "x", contains=[name, "value 3"])
    refused("convert", broken, "-o", tmp_path / "o", "--quiet", contains=[name, "value 3"])
    assert not (tmp_path / "o").exists() and not (tmp_path / "o.partial").exists()


def test_logits_that_overflow(tmp_path):
    tensors = tiny_model.random_tensors()
    tensors["model.norm.weight"][:] = 1e38
    broken = tiny_model.make_directory(tmp_path / "model", tensors=tensors)
    text = tiny_model.calibration_file(tmp_path / "words.txt")
    refused("generate", broken, "--prompt", "x", contains="not finite")
    refused("eval", "perplexity", broken, "--text", text, "--context", 64, "--quiet", contains="not finite")


def test_weights_that_the_new_type_cannot_hold(tmp_path):
    tensors = tiny_model.random_tensors()
    tensors["model.layers.0.mlp.down_proj.weight"][3, 5] = 1e5
    large = tiny_model.make_directory(tmp_path / "model", tensors=tensors)
    refused("convert", large, "-o", tmp_path / "o", "--dtype", "float16", "--quiet",
            contains=["model.layers.0.mlp.down_proj", "float16"])
    run_grille("convert", large, "-o", tmp_path / "o", "--dtype", "bfloat16")


def test_missing_and_surplus_tensors(model, tmp_path):
    tensors = load_file(model / "model.safetensors")
    fewer = {name: t for name, t in tensors.items() if name != "model.layers.0.mlp.gate_proj.weight"}
    refused("inspect", tiny_model.make_directory(tmp_path / "fewer", tensors=fewer), contains="model.layers.0.mlp.gate_proj")
    more = tensors | {"model.layers.0.mlp.extra.weight": np.zeros((2, 2), np.float32)}
    refused("inspect", tiny_model.make_directory(tmp_path / "more", tensors=more), contains="model.layers.0.mlp.extra")


def test_a_third_value_in_a_group(model, tmp_path, calibration):
    sparse = tmp_path / "sparse"
    run_grille("prune", model, "-o", sparse, "--method", "magnitude")
    tensors = load_file(sparse / "model.safetensors")
    tensors["model.layers.1.self_attn.k_proj.bitmask"][3, 2] = 0x37  # 3 columns in the group of columns 16 to 19
    save_file(tensors, sparse / "model.safetensors", metadata={"format": "pt"})
    refused("generate", sparse, "--prompt", "x", contains=["model.layers.1.self_attn.k_proj", "row 3", "group 4"])


def test_calibration_that_does_not_suffice(model, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("too short")
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    for file in (short, empty):
        refused("prune", model, "-o", tmp_path / "o", "--calibration", file, "--context", 64, contains=[file.name, "tokens"])
    refused("prune", model, "-o", tmp_path / "o", "--calibration", short, "--context", 257, contains=["257", "256"])
    refused("eval", "perplexity", model, "--text", short, "--context", 257, contains=["257", "256"])
    refused("eval", "perplexity", model, "--text", short, "--context", 64, contains=["9 tokens", "64"])
    assert not (tmp_path / "o").exists() and not (tmp_path / "o.partial").exists()


def test_an_output_folder_that_is_not_empty(model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    refused("convert", model, "-o", out, contains=["out", "--overwrite"])
    assert (out / "precious").read_text() == "mine"
    run_grille("convert", model, "-o", out, "--overwrite")
    assert not (out / "precious").exists() and (out / "config.json").exists()
    # Never what holds the model itself, or the folder that the user is in.
    refused("convert", out, "-o", tmp_path, "--overwrite", contains=[str(out), "cannot be replaced"])
    refused("convert", model, "-o", tmp_path, "--overwrite", contains="working directory", cwd=out)
    refused("convert", model, "-o", "..", "--overwrite", contains="name of a new folder", cwd=out)
    assert (out / "config.json").exists()


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


def test_a_full_disk(model, tmp_path):
    """A limit on the size of files fails writes as a full disk does."""
    refused("convert", model, "-o", tmp_path / "out", "--quiet", contains="out.partial", preexec_fn=limit_file_size)
    assert not (tmp_path / "out").exists()


def test_what_was_written_can_be_rewritten(model, tmp_path, calibration):
    """Pruned and FP8, but for the embedding: every command reads it again."""
    run_grille(*prune_command(model, tmp_path / "sparse", calibration, "--quantize", "fp8-dynamic"))
    run_grille("convert", tmp_path / "sparse", "-o", tmp_path / "dense", "--format", "dense")
    run_grille("quantize", tmp_path / "sparse", "-o", tmp_path / "small", "--quantize-embeddings", "fp8")
    run_grille("prune", tmp_path / "sparse", "-o", tmp_path / "again", "--method", "magnitude")
    texts = {run_grille("generate", tmp_path / name, "--prompt", "mask", "--max-tokens", 8, "--json").json["text"]
             for name in ("sparse", "dense")}
    assert len(texts) == 1


def prune_command(model, out, calibration, *more):
    return ["prune", model, "-o", out, "--calibration", calibration, "--samples", 8, "--context", 64, *more]


def file_bytes(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_run_gives_the_same_bytes(model, tmp_path, calibration):
    for name in ("a", "b"):
        run_grille(*prune_command(model, tmp_path / name, calibration, "--quantize", "fp8-dynamic"))
    assert file_bytes(tmp_path / "a") == file_bytes(tmp_path / "b")


def test_interrupt_keeps_the_work_and_resume_finishes_it(model, tmp_path, calibration):
    """A model with many blocks is stopped in the middle."""
    config = tiny_model.CONFIG | {"num_hidden_layers": 40}
    deep = tiny_model.make_directory(tmp_path / "deep", config, tiny_model.random_tensors(config))
    run_grille(*prune_command(deep, tmp_path / "whole", calibration))
    out = tmp_path / "stopped"
    process = subprocess.Popen([str(GRILLE), *map(str, prune_command(deep, out, calibration))], text=True,
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    part = tmp_path / "stopped.partial" / "parts" / "block-00003.safetensors"
    for _ in range(3000):
        if part.exists():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "--resume" in stderr.strip().splitlines()[-1]
    assert not out.exists() and part.exists()
    refused(*prune_command(deep, out, calibration, "--quiet"), contains="--resume")
    refused(*prune_command(deep, out, calibration, "--quiet", "--resume", "--damping", "0.02"), contains="other options")
    refused(*prune_command(deep, out, calibration, "--quiet", "--resume", "--seed", "7"), contains="other options")
    fewer = ["prune", deep, "-o", out, "--calibration", calibration, "--samples", 4, "--context", 64, "--quiet", "--resume"]
    refused(*fewer, contains="other options")
    run_grille(*prune_command(deep, out, calibration, "--resume"))
    assert file_bytes(out) == file_bytes(tmp_path / "whole")
    assert not (tmp_path / "stopped.partial").exists()


def test_json_is_all_that_goes_to_stdout(model):
    run = run_grille("generate", model, "--prompt", "ab", "--max-tokens", 4, "--json", "--verbose")
    result = run.json
    assert {"text", "token_ids", "finish_reason", "seconds", "device", "version"} <= result.keys()
    assert result["device"] == "cpu"
