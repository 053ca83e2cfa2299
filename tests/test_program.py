"""What the built program loads when it starts."""

import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "grille"


@pytest.fixture(scope="module")
def libraries():
    if not PROGRAM.exists():
        pytest.skip("build/bin/grille is not built")
    output = subprocess.run(["ldd", PROGRAM], check=True, capture_output=True, text=True, env={}).stdout
    assert "not found" not in output, "starts only with LD_LIBRARY_PATH:\n" + output
    return [line.split()[2] for line in output.splitlines() if "=>" in line]


def test_there_is_one_openmp_runtime_and_it_is_torchs(libraries):
    runtimes = [path for path in libraries if "libgomp" in path or "libomp" in path or "libiomp" in path]
    assert len(runtimes) == 1 and "torch/lib/" in runtimes[0], runtimes


def test_no_cuda_library_but_the_runtime_is_loaded_at_start(libraries):
    heavy = [path for path in libraries if any(word in Path(path).name for word in
             ("torch_cuda", "cublas", "cudnn", "cusparse", "cusolver", "nccl", "libcuda.so"))]
    assert heavy == []
