"""A random two-layer Llama with a byte tokenizer, for tests that need a model but not a good one."""
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 132,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 257,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "torch_dtype": "float32", "eos_token_id": 256,
}


def random_tensors(config: dict = CONFIG, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    hidden, inter = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]

    def matrix(rows: int, cols: int) -> np.ndarray:
        return (random.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden),
               "model.norm.weight": np.ones(hidden, np.float32)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{i}."
        tensors |= {
            prefix + "input_layernorm.weight": random.uniform(0.5, 1.5, hidden).astype(np.float32),
            prefix + "post_attention_layernorm.weight": random.uniform(0.5, 1.5, hidden).astype(np.float32),
            prefix + "self_attn.q_proj.weight": matrix(query, hidden),
            prefix + "self_attn.k_proj.weight": matrix(key, hidden),
            prefix + "self_attn.v_proj.weight": matrix(key, hidden),
            prefix + "self_attn.o_proj.weight": matrix(hidden, query),
            prefix + "mlp.gate_proj.weight": matrix(inter, hidden),
            prefix + "mlp.up_proj.weight": matrix(inter, hidden),
            prefix + "mlp.down_proj.weight": matrix(hidden, inter),
        }
    return tensors


def byte_tokenizer() -> Tokenizer:
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


CHAT_TEMPLATE = ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|end|>{% endfor %}"
                 "{% if add_generation_prompt %}assistant: {% endif %}")


def make_directory(out: Path, config: dict | None = None, tensors: dict | None = None) -> Path:
    config = CONFIG if config is None else config
    out.mkdir(parents=True, exist_ok=True)
    save_file(random_tensors(config) if tensors is None else tensors, out / "model.safetensors",
              metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=2))
    byte_tokenizer().save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "chat_template": CHAT_TEMPLATE}))
    return out


def calibration_file(path: Path) -> Path:
    random = np.random.default_rng(1)
    words = ["sparse", "grille", "mask", "page", "letter", "row", "column", "block", "weight", "token", "chosen"]
    path.write_text(" ".join(random.choice(words, 3000)) + "\n")
    return path
