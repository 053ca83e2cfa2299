"""tools/check_symbols.py finds what ends the process or prints, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "check_symbols.py"


def run_on(tmp_path, body):
    source = tmp_path / "a.cc"
    source.write_text(f"#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#include <iostream>\n"
                      f"#include <stdexcept>\nvoid f(int x) {{ {body} }}\n")
    subprocess.run(["c++", "-std=c++20", "-c", source, "-o", tmp_path / "a.o"], check=True)
    subprocess.run(["ar", "rcs", tmp_path / "liba.a", tmp_path / "a.o"], check=True)
    return subprocess.run([sys.executable, TOOL, tmp_path / "liba.a"], capture_output=True, text=True)


@pytest.mark.parametrize("body,symbol", [
    ("std::abort();", "abort"),
    ("std::exit(x);", "exit"),
    ("assert(x);", "__assert_fail"),
    ('std::printf("%d", x);', "printf"),
    ('std::puts("x");', "puts"),
    ('std::fprintf(stderr, "%d", x);', "stderr"),
    ("std::cout << x;", "_ZSt4cout"),
])
def test_forbidden_calls_are_found(tmp_path, body, symbol):
    result = run_on(tmp_path, body)
    assert result.returncode == 1
    assert f"uses {symbol}:" in result.stderr and "a.o" in result.stderr


def test_exceptions_and_formatting_into_memory_are_fine(tmp_path):
    result = run_on(tmp_path, 'char b[8]; std::snprintf(b, 8, "%d", x); if (x) throw std::runtime_error(b);')
    assert result.returncode == 0, result.stderr
