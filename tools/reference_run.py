#!/usr/bin/env python3
"""The full-size comparison with the authors' pruning codes (minutes to hours, by the machine).

Dense perplexity on all of WikiText-2, then each method and pattern calibrated on 128 x 2048 ids, against
shared/data/models/smollm2-135m. Prints a table and writes it as JSON.

  tools/reference_run.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --out bench/results/pruning_quality.json
"""
import argparse
import json
import os
import platform
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = ["dense", "sparsegpt 2:4", "wanda 2:4", "magnitude 2:4", "sparsegpt 4:8", "sparsegpt unstructured", "wanda 4:8",
        "wanda unstructured", "magnitude 4:8", "magnitude unstructured"]
# 2048, 512 and the mean relative output error, from pruning/README.md.
EXPECTED = {
    "dense": (21.630690, 30.193314, None),
    "sparsegpt 2:4": (95.368, 132.150, 0.16974), "sparsegpt 4:8": (68.679, 94.181, 0.15257),
    "sparsegpt unstructured": (46.673, 65.415, 0.12761),
    "wanda 2:4": (207.315, 237.860, 0.22409), "wanda 4:8": (92.559, 117.668, 0.19786),
    "wanda unstructured": (49.949, 69.391, 0.16250),
    "magnitude 2:4": (2051.528, 1714.919, None), "magnitude 4:8": (1148.206, 967.017, None),
    "magnitude unstructured": (537.580, 575.947, None),
}


def grille(binary: Path, *arguments: object) -> dict:
    output = subprocess.run([str(binary), *map(str, arguments), "--json", "--quiet"], check=True, stdout=subprocess.PIPE)
    return json.loads(output.stdout)


def bits(path: Path, rows: int, cols: int) -> list[int]:
    """Kept weights, one bit each, row-major, low bit first."""
    data = path.read_bytes()
    return [data[i // 8] >> (i % 8) & 1 for i in range(rows * cols)]


def read_tensor(path: Path, name: str) -> tuple[dict, bytes]:
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        begin, end = header[name]["data_offsets"]
        file.seek(8 + length + begin)
        return header[name], file.read(end - begin)


def check_layer0(model: Path, reference: Path, method: str) -> dict:
    """Differing mask bits of block 0's q_proj and down_proj, and for SparseGPT the largest difference in W'."""
    result = {}
    for layer, module, rows, cols, first in (("q_proj", "self_attn.q_proj", 576, 576, 64),
                                             ("down_proj", "mlp.down_proj", 576, 1536, 32)):
        _, data = read_tensor(model / "model.safetensors", f"model.layers.0.{module}.weight")
        weight = struct.unpack(f"<{rows * cols}f", data)
        wanted = bits(reference / f"layer0_{layer}.{method}_2of4.bits", rows, cols)
        result[f"{layer} differing bits"] = sum((w != 0) != bool(b) for w, b in zip(weight, wanted))
        if method == "sparsegpt":
            data = (reference / f"layer0_{layer}.sparsegpt_2of4.first{first}rows.f32").read_bytes()
            values = struct.unpack(f"<{first * cols}f", data)
            result[f"{layer} largest difference"] = max(abs(a - b) for a, b in zip(weight, values))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grille", type=Path, default=ROOT / "build" / "bin" / "grille")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--runs", default=",".join(RUNS), help="some of: " + ", ".join(RUNS))
    parser.add_argument("--contexts", default="2048,512")
    parser.add_argument("--out", type=Path, help="JSON file; earlier results in it are kept")
    arguments = parser.parse_args()
    reference = arguments.shared / "models" / "smollm2-135m"
    wikitext = arguments.shared / "wikitext-2" / "wiki.test.raw"
    results = json.loads(arguments.out.read_text()) if arguments.out and arguments.out.exists() else {}
    results["machine"] = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        calibration = work / "calibration.u16"
        shutil.copy(reference / "calibration_128x2048.bin", calibration)
        dense = work / "dense"
        grille(arguments.grille, "convert", arguments.gguf, "-o", dense)
        for run in arguments.runs.split(","):
            begin = time.monotonic()
            row = {}
            model = dense
            if run != "dense":
                method, pattern = run.split()
                model = work / "model"
                pruned = grille(arguments.grille, "prune", dense, "-o", model, "--overwrite", "--method", method,
                                "--pattern", pattern, "--format", "dense", "--samples", 128, "--context", 2048,
                                *(() if method == "magnitude" else ("--calibration", calibration)))
                errors = [layer["relative_error"] for layer in pruned["layers"] if layer["relative_error"] is not None]
                row["prune seconds"] = pruned["seconds"]
                row["mean relative error"] = sum(errors) / len(errors) if errors else None
                if pattern == "2:4" and method != "magnitude":
                    row |= check_layer0(model, reference / "pruning", method)
            for context in arguments.contexts.split(","):
                measured = grille(arguments.grille, "eval", "perplexity", model, "--text", wikitext, "--text-format",
                                  "hf-wikitext", "--context", context, "--dtype", "float32")
                expected = EXPECTED[run][0 if context == "2048" else 1]
                row[f"perplexity {context}"] = measured["perplexity"]
                row[f"against {expected}"] = measured["perplexity"] / expected - 1
            if EXPECTED[run][2] and row.get("mean relative error"):
                row[f"error against {EXPECTED[run][2]}"] = row["mean relative error"] / EXPECTED[run][2] - 1
            row["seconds"] = time.monotonic() - begin
            results[run] = row
            print(run, json.dumps(row), flush=True)
            if arguments.out:
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
