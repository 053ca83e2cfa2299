"""tools/check_layers.py finds a breach of each of its rules, and nothing in a good tree."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402

GOOD = {
    "grille/base/error.h": "#include <string>\n",
    "grille/formats/two_four.h": '#include "grille/base/error.h"\n',
    "grille/kernels/pack.h": '#include "grille/formats/two_four.h"\n#include "grille/base/error.h"\n',
    "grille/kernels/cuda/pack.cu": '#include <cuda_runtime.h>\n#include "grille/kernels/pack.h"\n',
    "grille/kernels/CMakeLists.txt": "grille_folder(kernels DEPS grille_formats)\n",
    "grille/benchmark/cuda/cublaslt.cc": '#include <cublasLt.h>\n#include "grille/kernels/pack.h"\n',
    "grille/tensors/weight.h": "#include <ATen/core/Tensor.h>\n#include <c10/cuda/CUDAStream.h>\n",
    "grille/text/tokenizer.h": '#include "grille/base/error.h"\n',
    "grille/engine/engine.cc": '#include "grille/tensors/weight.h"\n#include "grille/text/tokenizer.h"\n',
    "cli/main.cc": '#include "grille/engine/engine.h"\n#include "cli/options.h"\n',
    "bench/matmul.cc": '#include "grille/kernels/pack.h"\n#include <torch/torch.h>\n',
}

# (file, its text, part of the message)
BREACHES = [
    ("grille/base/log.h", '#include "grille/kernels/pack.h"\n', "base (row 0) may not include kernels (row 2)"),
    ("grille/tensors/a.h", '#include "grille/text/tokenizer.h"\n', "tensors (row 3) may not include text (row 3)"),
    ("grille/kernels/a.h", '#  include "grille/tensors/weight.h"\n', "kernels (row 2) may not include tensors"),
    ("grille/engine/a.h", '#include "cli/options.h"\n', "engine (row 6) may not include cli (row 9)"),
    ("grille/engine/a.h", '#include "bench/timer.h"\n', "engine may not include bench/"),
    ("grille/engine/a.h", "#include <grille/evaluate/perplexity.h>\n", "may not include evaluate"),
    ("grille/kernels/a.h", "#include <ATen/core/Tensor.h>\n", "kernels may not include torch"),
    ("grille/formats/a.cc", "#include <c10/util/Half.h>\n", "formats may not include torch"),
    ("grille/text/a.cc", "#include <torch/torch.h>\n", "text may not include torch"),
    ("grille/benchmark/a.cc", "#include <torch/torch.h>\n", "benchmark may not include torch"),
    ("grille/benchmark/a.cc", "#include <cublasLt.h>\n", "allowed only in grille/kernels/cuda/ and grille/benchmark/cuda/"),
    ("grille/models/a.cc", "#include <c10/cuda/CUDAStream.h>\n", "allowed only in comm, engine, nn, tensors"),
    ("grille/tensors/a.cc", "#include <cuda_runtime.h>\n", "allowed only in grille/kernels/cuda/"),
    ("grille/kernels/a.cc", "#include <cusparseLt.h>\n", "allowed only in grille/kernels/cuda/"),
    ("bench/a.cc", "#include <cublasLt.h>\n", "allowed only in grille/kernels/cuda/"),
    ("grille/tensors/a.cu", "", "CUDA sources belong in"),
    ("grille/kernels/a.cuh", "", "CUDA sources belong in"),
    ("grille/misc/a.h", "", "grille/misc has no row"),
    ("grille/base/a.h", '#include "grille/base/a.h"\n', "include cycle"),
    ("grille/kernels/a.h", '#include "pack.h"\n', "as a path from the root"),
    ("grille/formats/CMakeLists.txt", "grille_folder(formats DEPS grille_base\n  grille_kernels)\n",
     "formats (row 1) may not include kernels"),
]


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_good_tree_has_no_breach(tmp_path):
    write(tmp_path, GOOD)
    assert check_layers.check(tmp_path) == []


@pytest.mark.parametrize("name,text,message", BREACHES)
def test_each_rule_is_enforced(tmp_path, name, text, message):
    write(tmp_path, {**GOOD, name: text})
    errors = check_layers.check(tmp_path)
    assert len(errors) == 1, errors
    assert message in errors[0] and (name in errors[0])


def test_a_cycle_of_several_files_is_shown_whole(tmp_path):
    write(tmp_path, {
        "grille/base/a.h": '#include "grille/base/b.h"\n',
        "grille/base/b.h": '#include "grille/base/c.h"\n',
        "grille/base/c.h": '#include "grille/base/a.h"\n',
    })
    assert check_layers.check(tmp_path) == [
        "include cycle: grille/base/a.h -> grille/base/b.h -> grille/base/c.h -> grille/base/a.h"
    ]


def test_the_documented_table_is_the_enforced_one(capsys):
    check_layers.print_table()
    table = capsys.readouterr().out
    assert table.strip("\n") in (ROOT / "docs" / "HACKING.md").read_text()
