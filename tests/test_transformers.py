"""Models that transformers wrote, and models that transformers reads: the same log-likelihoods."""
import json

import pytest
import torch
from transformers import (AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

import tiny_model
from conftest import run_grille

SHAPE = dict(vocab_size=257, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, eos_token_id=256, bos_token_id=None,
             initializer_range=0.2)
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=False)),
    "llama with biases, llama3 rope": (LlamaForCausalLM, LlamaConfig(
        **SHAPE, attention_bias=True, mlp_bias=True, head_dim=24, rope_theta=500000.0,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 64})),
    "llama, linear rope, tied": (LlamaForCausalLM, LlamaConfig(
        **SHAPE, tie_word_embeddings=True, rope_scaling={"rope_type": "linear", "factor": 2.0})),
    "mistral": (MistralForCausalLM, MistralConfig(**SHAPE, head_dim=16, sliding_window=None)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SHAPE)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SHAPE, head_dim=32)),
}
TEXT = "The quick brown fox jumps over the lazy dog. " * 5
CONTEXT = 128


def make(name, folder, dtype=torch.float32):
    torch.manual_seed(0)
    model_class, config = FAMILIES[name]
    model = model_class(config).to(dtype)
    for parameter in model.parameters():  # biases and norms start at 0 and 1, which would hide them
        if parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    tiny_model.byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}))
    return model.eval()


def transformers_nll(model):
    ids = torch.tensor([tiny_model.byte_tokenizer().encode(TEXT).ids[:CONTEXT]])
    with torch.no_grad():
        logprobs = model(ids).logits.double().log_softmax(-1)
    return -logprobs[0, :-1].gather(1, ids[0, 1:, None]).sum().item()


def grille_nll(folder, text_file, *options):
    text_file.write_text(TEXT)
    result = run_grille("eval", "perplexity", folder, "--text", text_file, "--context", CONTEXT, "--max-tokens",
                        CONTEXT, "--json", *options).json
    assert result["tokens"] == CONTEXT - 1
    return result["nll_sum"]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gives_transformers_likelihoods(name, tmp_path):
    model = make(name, tmp_path / "model")
    # fp32 on both sides: logits of size 10 differ by some 1e-5, with either sign, over 127 predictions.
    assert grille_nll(tmp_path / "model", tmp_path / "text") == pytest.approx(transformers_nll(model), abs=2e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16_is_close_to_transformers(name, tmp_path):
    model = make(name, tmp_path / "model", torch.bfloat16)
    nll = grille_nll(tmp_path / "model", tmp_path / "text")
    exact = transformers_nll(model.float())
    # bf16 keeps 8 bits: each of some 20 roundings on the way to a logit of size 10 moves it by up to 2^-8 of
    # itself; 127 predictions with either sign.
    assert nll == pytest.approx(exact, abs=127 ** 0.5 * 20 ** 0.5 * 10 / 256)


def test_a_dense_pruned_model_is_read_by_transformers(tmp_path):
    make("llama", tmp_path / "model")
    calibration = tiny_model.calibration_file(tmp_path / "words.txt")
    run_grille("prune", tmp_path / "model", "-o", tmp_path / "dense", "--format", "dense", "--calibration", calibration,
               "--samples", 8, "--context", 64)
    run_grille("convert", tmp_path / "dense", "-o", tmp_path / "again")
    run_grille("prune", tmp_path / "model", "-o", tmp_path / "compressed", "--calibration", calibration, "--samples", 8,
               "--context", 64)
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "dense", dtype=torch.float32).eval()
    weight = read.model.layers[1].mlp.up_proj.weight
    assert (weight.reshape(-1, 4).ne(0).sum(1) <= 2).all()
    expected = transformers_nll(read)
    for name in ("dense", "again", "compressed"):
        assert grille_nll(tmp_path / name, tmp_path / "text") == pytest.approx(expected, abs=2e-3), name


def test_a_converted_gguf_is_read_by_transformers(gguf, tmp_path):
    run_grille("convert", gguf, "-o", tmp_path / "model", "--dtype", "bfloat16")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        greedy = model.generate(prompt["input_ids"], max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1]:].tolist()
    ours = run_grille("generate", tmp_path / "model", "--prompt", "The capital of France is", "--max-tokens", 8,
                      "--dtype", "float32", "--json").json
    assert ours["token_ids"] == greedy
