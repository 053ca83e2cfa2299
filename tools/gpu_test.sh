#!/usr/bin/env bash
# Builds the rows without torch (base, formats, kernels) with CUDA, and runs their GPU tests, then again
# under compute-sanitizer. For a machine with a GPU, nvcc 13.0 and g++ 13; needs no torch and no cargo.
#
#   tools/gpu_test.sh [DIR]
#
# DIR holds .deb files of libfmt-dev, libfmt9 and libgtest-dev, for a machine that lacks them; they are
# unpacked under build-gpu/, not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build-gpu
mkdir -p "$build"

echo "commit:  $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm --format=csv,noheader | sed 's/^/gpu:     /'
flags=(-DGRILLE_KERNELS_ONLY=ON -DGRILLE_CUDA=ON -DCMAKE_BUILD_TYPE=Release)
if [ -n "${1:-}" ]; then
  for package in "$1"/*.deb; do dpkg -x "$package" "$build/packages"; done
  flags+=("-DCMAKE_PREFIX_PATH=$PWD/$build/packages/usr")
fi
generator=Ninja
command -v ninja >/dev/null || generator="Unix Makefiles"
cmake -S . -B "$build" -G "$generator" "${flags[@]}"
cmake --build "$build" -j "$(nproc)"
echo "nvcc:    $(grep -o 'CMAKE_CUDA_COMPILER_VERSION "[^"]*"' "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake)"

ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -LE gpu
gpu_tests() {  # a tool to run under, or nothing
  "$@" "$build/bin/grille_kernels_test" --gtest_filter='Gpu*:*/Gpu*' --gtest_brief=1
}
gpu_tests | tee "$build/gpu.log"
if grep -q 'SKIPPED' "$build/gpu.log"; then
  echo "gpu tests: skipped, so nothing was tested" >&2
  exit 1
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [ -z "$sanitizer" ]; then
  echo "compute-sanitizer: not installed"
  exit 0
fi
for tool in memcheck initcheck racecheck; do
  echo "compute-sanitizer $tool"
  if ! gpu_tests "$sanitizer" --tool "$tool" --error-exitcode 99 >"$build/$tool.log" 2>&1; then
    if grep -q 'Device not supported' "$build/$tool.log"; then
      echo "compute-sanitizer: does not support this device or container"
      break
    fi
    tail -n 60 "$build/$tool.log"
    exit 1
  fi
  tail -n 2 "$build/$tool.log"
done
