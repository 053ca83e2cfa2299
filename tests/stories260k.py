"""llama2.c's stories260K as a Hugging Face directory.

Layout of the .bin: https://github.com/karpathy/llama2.c, run.c, memory_map_weights(); of the tokenizer:
build_tokenizer() there.
"""
import json
import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of interleaved rotary pairs (2j, 2j+1) -> Hugging Face's halves (j, j + d/2)."""
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def read_tensors(path: Path) -> tuple[dict, dict]:
    data = path.read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, positions = struct.unpack("<7i", data[:28])
    assert vocab > 0, "an untied classifier is not handled"
    floats = np.frombuffer(data, dtype="<f4", offset=28)
    place = 0

    def take(*shape: int) -> np.ndarray:
        nonlocal place
        count = int(np.prod(shape))
        place += count
        return floats[place - count:place].reshape(shape)

    head_dim = dim // heads
    embedding = take(vocab, dim)
    attention_norm = take(layers, dim)
    query, key = take(layers, dim, dim), take(layers, kv_heads * head_dim, dim)
    value, output = take(layers, kv_heads * head_dim, dim), take(layers, dim, dim)
    mlp_norm = take(layers, dim)
    gate, down, up = take(layers, hidden, dim), take(layers, dim, hidden), take(layers, hidden, dim)
    norm = take(dim)

    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": norm}
    for i in range(layers):
        prefix = f"model.layers.{i}."
        tensors |= {
            prefix + "input_layernorm.weight": attention_norm[i],
            prefix + "post_attention_layernorm.weight": mlp_norm[i],
            prefix + "self_attn.q_proj.weight": unpermute(query[i], heads),
            prefix + "self_attn.k_proj.weight": unpermute(key[i], kv_heads),
            prefix + "self_attn.v_proj.weight": value[i],
            prefix + "self_attn.o_proj.weight": output[i],
            prefix + "mlp.gate_proj.weight": gate[i],
            prefix + "mlp.up_proj.weight": up[i],
            prefix + "mlp.down_proj.weight": down[i],
        }
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": dim,
        "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": positions,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu",
        "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 1,
    }
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, config


def read_vocabulary(path: Path, size: int) -> tuple[list[bytes], list[float]]:
    data = path.read_bytes()
    place, pieces, scores = 4, [], []
    for _ in range(size):
        score, length = struct.unpack_from("<fi", data, place)
        place += 8
        pieces.append(data[place:place + length])
        scores.append(score)
        place += length
    return pieces, scores


def tokenizer_json(pieces: list[bytes], scores: list[float]) -> dict:
    """SentencePiece BPE: merges in the order of the merged piece's score, bytes as a fallback."""
    tokens = [piece.decode("utf-8").replace(" ", "\u2581") for piece in pieces]
    tokens[0:3] = ["<unk>", "<s>", "</s>"]
    ids = {token: i for i, token in enumerate(tokens)}
    merges = []
    for i, token in enumerate(tokens[259:], start=259):
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                merges.append((-scores[i], i, ids[left], ids[right], left, right))
    merges.sort()
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in range(3)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                  "vocab": ids, "merges": [f"{left} {right}" for *_, left, right in merges]},
    }


def make_directory(source: Path, out: Path) -> Path:
    """Writes the model in `source` (the folder with stories260K.bin and tok512.bin) to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    tensors, config = read_tensors(source / "stories260K.bin")
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=2))
    pieces, scores = read_vocabulary(source / "tok512.bin", config["vocab_size"])
    (out / "tokenizer.json").write_text(json.dumps(tokenizer_json(pieces, scores), ensure_ascii=False))
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<s>", "unk_token": "<unk>"}))
    return out
