#!/usr/bin/env bash
# Formats all C++ and CUDA sources with the pinned clang-format; --check only says which are not.
set -euo pipefail
cd "$(dirname "$0")/.."
program=.venv/bin/clang-format
[ -x "$program" ] || program=clang-format
version=$("$program" --version | grep -oE '[0-9]+' | head -n 1)
if [ "$version" != 14 ]; then
  echo "format: clang-format 14 is needed (found $version): run tools/setup.sh" >&2
  exit 2
fi
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh')
existing=()
for file in "${files[@]}"; do [ ! -f "$file" ] || existing+=("$file"); done
if [ "${1:-}" = --check ]; then
  if ! found=$("$program" --dry-run -Werror "${existing[@]}" 2>&1); then
    grep -oE '^[^: ]+:[0-9]+' <<<"$found" | sort -u | head -n 40 >&2
    echo "format: run 'make format'" >&2
    exit 1
  fi
  echo "format: ${#existing[@]} files are as clang-format wants them"
else
  "$program" -i "${existing[@]}"
fi
