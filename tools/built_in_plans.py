#!/usr/bin/env python3
"""Writes grille/kernels/matmul_24_built_in_plans.cc from files of `grille bench linear --tune`.

    tools/built_in_plans.py bench/results/plans_h200.json ...    one file a device; none: no built-in plans

The test Matmul24PlanTable.TheBuiltInPlansCanRun checks what was written.
"""

import argparse
import json
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "grille/kernels/matmul_24_built_in_plans.cc"
FORMAT, VERSION = "grille matmul_24_sm90 plans", 1
DTYPES = {"bfloat16": "kBFloat16", "float16": "kFloat16", "float8_e4m3fn": "kFloat8E4M3", "int8": "kInt8"}

HEAD = """\
// Written by tools/built_in_plans.py from files of `grille bench linear --tune`.
#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::kernels {
"""
PLANS = """\
namespace {

using enum DType;

constexpr Matmul24Sm90Plan stream(int token_tile, int stages, int cluster, int group_rows, int clusters,
                                  bool resident_x, bool promote) {
  return {.kernel = Matmul24Kernel::kStream,
          .row_tile = 128,
          .token_tile = token_tile,
          .stages = stages,
          .cluster = cluster,
          .group_rows = group_rows,
          .clusters = clusters,
          .resident_x = resident_x,
          .promote = promote};
}

constexpr Matmul24Sm90Plan large(int row_tile, int token_tile, int cluster, int clusters, bool promote,
                                 bool split) {
  return {.kernel = Matmul24Kernel::kLarge,
          .row_tile = row_tile,
          .token_tile = token_tile,
          .stages = 0,
          .cluster = cluster,
          .clusters = clusters,
          .promote = promote,
          .split = split};
}

}  // namespace
"""
TABLE = """\
const Matmul24PlanTable& built_in_24_plans() {
  static const Matmul24PlanTable table(std::vector<Matmul24PlanEntry>{%s});
  return table;
}

}  // namespace grille::kernels
"""


def truth(value):
    return "true" if value else "false"


def row(multiprocessors, p):
    if p["kernel"] == "stream":
        plan = (f"stream({p['token_tile']}, {p['stages']}, {p['cluster']}, {p['group_rows']}, "
                f"{p['clusters']}, {truth(p['resident_x'])}, {truth(p['promote'])})")
    else:
        plan = (f"large({p['row_tile']}, {p['token_tile']}, {p['cluster']}, {p['clusters']}, "
                f"{truth(p['promote'])}, {truth(p['split'])})")
    return f"      {{{multiprocessors}, {DTYPES[p['dtype']]}, {p['n']}, {p['k']}, {p['m']}, {plan}}},\n"


def rows(path):
    """The rows of one file, under a comment that says where they were measured."""
    file = json.loads(path.read_text())
    if file.get("format") != FORMAT or file.get("version") != VERSION:
        sys.exit(f"{path}: not a file of plans of version {VERSION}")
    origin = " ".join(f"{file['device']}, driver {file['driver']}, CUDA {file['cuda']}".split())
    text = f"      // {origin}: multiprocessors, dtype, n, k, m, plan\n"
    order = sorted(file["plans"], key=lambda p: (p["dtype"], p["n"], p["k"], p["m"]))
    return text + "".join(row(file["multiprocessors"], p) for p in order)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--output", type=Path, default=TARGET, help="instead of the source file")
    args = parser.parse_args()
    table = "".join(rows(path) for path in args.files)
    count = sum(line.strip().startswith("{") for line in table.splitlines())
    if table:
        table = f"\n      // clang-format off\n{table}      // clang-format on\n  "
    text = HEAD + ("\n" + PLANS if table else "") + "\n" + TABLE % table
    args.output.write_text(text)
    print(f"{args.output}: {count} plans")


if __name__ == "__main__":
    main()
