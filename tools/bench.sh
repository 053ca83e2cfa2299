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
  "build/bin/$(basename "$program")"
done
