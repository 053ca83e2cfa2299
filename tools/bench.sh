#!/usr/bin/env bash
# Runs every benchmark program (build/bin/bench_*), or those whose names are given.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "commit: $(git rev-parse --short HEAD)$(git diff --quiet || echo ' with changes'), $(nproc) CPUs:" \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
programs=("$@")
[ "${#programs[@]}" -gt 0 ] || mapfile -t programs < <(find build/bin -maxdepth 1 -name 'bench_*' -executable | sort)
for program in "${programs[@]}"; do
  echo "== $(basename "$program")"
  case $(basename "$program") in
    bench_model) .venv/bin/python bench/model_speed.py ;;  # which runs it, in turns with llama.cpp
    *) "build/bin/$(basename "$program")" ;;
  esac
done
