#!/usr/bin/env python3
"""Checks the layers of the code: who may include whom.

A folder may include only folders in rows above its own. On top of that: no include cycle between files,
no torch above the line and in grille/text and grille/benchmark, no CUDA outside grille/kernels/cuda and
grille/benchmark/cuda (c10/cuda and ATen/cuda are allowed in a few folders), and no folder without a row. The DEPS of every grille_folder() obey the
same rows.

    tools/check_layers.py [ROOT]     exit status 0, or 1 with one line for every breach
    tools/check_layers.py --table    print the rows
"""

import argparse
import re
import sys
from pathlib import Path

# Top to bottom. grille/<folder>, except the last row, which is at the root of the repository.
ROWS = [
    (0, ["base"], "errors, dtypes, views, streams, CPU features, progress"),
    (1, ["formats"], "2:4, fp8, paged-KV: layouts and index arithmetic"),
    (2, ["kernels"], "one group of files an op; cpu/ and cuda/ inside"),
    (3, ["tensors", "comm", "text"], "tensors on at::Tensor; collectives; tokenizer and chat templates"),
    (3, ["benchmark"], "speed of the kernels against libraries; no torch"),
    (4, ["nn", "checkpoint", "quantize"], "layers; files <-> named tensors; scales and rounding"),
    (5, ["models", "prune"], "model families; weight and statistics -> mask and new weight"),
    (6, ["engine"], "KV cache, scheduling, sampling"),
    (7, ["evaluate", "server"], "perplexity, tasks; HTTP"),
    (8, ["compress", "finetune"], "the pipelines"),
    (9, ["cli", "python"], "parse, call, print"),
]
TORCH_BEGINS_AT_ROW = 3
TORCH_FREE_BELOW = {"text", "benchmark"}
ROOT_FOLDERS = {"cli", "python"}
# May include everything of grille; nothing may include them.
OUTSIDE = {"bench", "tests"}
TORCH_CUDA_ALLOWED = {"tensors", "comm", "nn", "engine"}
CUDA_FOLDERS = ("grille/kernels/cuda/", "grille/benchmark/cuda/")

ROW_OF = {folder: row for row, folders, _ in ROWS for folder in folders}
SOURCE_SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
TORCH_CUDA = re.compile(r"^(c10|ATen)/cuda/")
CUDA = re.compile(r"^(cuda|cublas|cusparse|nvrtc|cooperative_groups|cute?/|cutlass/)")
FOLDER_CALL = re.compile(r"grille_folder\(\s*(\w+)(.*?)\)", re.DOTALL)


def folder_of(path):
    """The folder that a path relative to the root belongs to, or None for files outside the rows."""
    parts = Path(path).parts
    if len(parts) > 2 and parts[0] == "grille":
        return parts[1]
    if len(parts) > 1 and parts[0] in ROOT_FOLDERS | OUTSIDE:
        return parts[0]
    return None


def sources(root):
    for top in ["grille", *sorted(ROOT_FOLDERS | OUTSIDE)]:
        for path in sorted((root / top).rglob("*")):
            inside = path.relative_to(root)
            if path.suffix in SOURCE_SUFFIXES and path.is_file() and "target" not in inside.parts:
                yield inside.as_posix()


def includes(root, source):
    for number, line in enumerate((root / source).read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def check_rows(here, there, place):
    """Errors of folder `here` using folder `there`."""
    if there in OUTSIDE:
        return [] if here == there else [f"{place}: {here} may not include {there}/"]
    if there not in ROW_OF:
        return [f"{place}: grille/{there} has no row in tools/check_layers.py"]
    if here in OUTSIDE or here == there or ROW_OF[there] < ROW_OF[here]:
        return []
    return [f"{place}: {here} (row {ROW_OF[here]}) may not include {there} (row {ROW_OF[there]}): "
            "only folders in rows above"]


def check_libraries(here, source, name, place):
    """Errors of an include of torch or CUDA."""
    errors = []
    if TORCH.match(name) and here not in OUTSIDE:
        if ROW_OF[here] < TORCH_BEGINS_AT_ROW or here in TORCH_FREE_BELOW:
            errors.append(f"{place}: {here} may not include torch (<{name}>)")
        if TORCH_CUDA.match(name) and here not in TORCH_CUDA_ALLOWED:
            errors.append(f"{place}: <{name}> is allowed only in {', '.join(sorted(TORCH_CUDA_ALLOWED))}")
    if CUDA.match(name) and not source.startswith(CUDA_FOLDERS):
        errors.append(f"{place}: <{name}> is allowed only in {' and '.join(CUDA_FOLDERS)}")
    return errors


def find_cycle(graph):
    """A list of files that include each other in a ring, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for target in graph.get(node, []):
            cycle = visit(target)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for node in graph:
        cycle = visit(node)
        if cycle:
            return cycle
    return None


def check_cmake(root):
    errors = []
    for path in sorted((root / "grille").rglob("CMakeLists.txt")):
        place = path.relative_to(root).as_posix()
        for name, rest in FOLDER_CALL.findall(path.read_text()):
            if name not in ROW_OF:
                errors.append(f"{place}: grille/{name} has no row in tools/check_layers.py")
                continue
            for target in re.findall(r"\bgrille(?:_|::)(\w+)", rest):
                if target in ROW_OF:
                    errors += check_rows(name, target, place)
    return errors


def check(root):
    """One line for every breach in the tree at `root`."""
    errors, graph = [], {}
    for source in sources(root):
        here = folder_of(source)
        if here is None:
            continue
        if here not in ROW_OF and here not in OUTSIDE:
            errors.append(f"{source}: grille/{here} has no row in tools/check_layers.py")
            continue
        if source.endswith((".cu", ".cuh")) and not source.startswith(CUDA_FOLDERS):
            errors.append(f"{source}: CUDA sources belong in {' and '.join(CUDA_FOLDERS)}")
        for number, quote, name in includes(root, source):
            place = f"{source}:{number}"
            errors += check_libraries(here, source, name, place)
            there = folder_of(name)
            if there is not None:
                errors += check_rows(here, there, place)
                graph.setdefault(source, []).append(name)
            elif quote == '"' and (root / source).parent.joinpath(name).exists():
                errors.append(f'{place}: write "{name}" as a path from the root of the repository')
    cycle = find_cycle(graph)
    if cycle:
        errors.append("include cycle: " + " -> ".join(cycle))
    return errors + check_cmake(root)


def print_table():
    above = -1
    for row, folders, holds in ROWS:
        if above < TORCH_BEGINS_AT_ROW <= row:
            print("     --- torch begins below this line (but not in text and benchmark) ---")
        above = row
        names = ", ".join(f + "/" if f in ROOT_FOLDERS else f"grille/{f}" for f in folders)
        print(f"{row:3}  {names:45} {holds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--table", action="store_true", help="print the rows and stop")
    args = parser.parse_args()
    if args.table:
        print_table()
        return 0
    errors = check(args.root)
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        print(f"layers: {sum(1 for _ in sources(args.root))} files, no breach")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
