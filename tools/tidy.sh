#!/usr/bin/env bash
# clang-tidy with the list in .clang-tidy:
#   tools/tidy.sh --all                 every source
#   tools/tidy.sh --changed [SECONDS]   those that differ from the base, for at most so long; says what it left
# The base is $GRILLE_TIDY_BASE, else where this branch left origin/main, else the commit before HEAD.
# Vector code (kernels/cpu, bench/read_bandwidth) and CPU detection are left out: clang 14 and gcc differ there.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(command -v clang-tidy || true)
if [ -z "$program" ]; then
  echo "tidy: clang-tidy is needed: run tools/setup.sh" >&2
  exit 2
fi
sources() { grep -E '^(grille|cli|bench)/.*\.cc$' | grep -vE '^grille/(kernels/(cpu|cuda)/|base/cpu_features)|^bench/read_bandwidth' || true; }

if [ "${1:-}" = --changed ]; then
  seconds=${2:-600}
  base=${GRILLE_TIDY_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
  if [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --verify -q HEAD~1 || git hash-object -t tree /dev/null)
  fi
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    sort -u | sources)
else
  seconds=86400
  mapfile -t files < <(git ls-files | sources)
fi
[ -f build/compile_commands.json ] || cmake -S . -B build -G Ninja >/dev/null
for i in "${!files[@]}"; do  # a file that this build does not compile has no flags to check it with
  grep -qF "\"$PWD/${files[i]}\"" build/compile_commands.json || unset "files[i]"
done
files=("${files[@]}")
[ "${#files[@]}" -gt 0 ] || { echo "tidy: no source changed"; exit 0; }

# clang has no omp.h of its own here: gcc's is looked at after everything else, without the attribute that
# only gcc knows.
flags=("--extra-arg=-idirafter$(c++ -print-file-name=include)" '--extra-arg=-D__malloc__(deallocator)=__malloc__'
  --extra-arg=-Wno-unknown-warning-option)
jobs=$(nproc)
end=$((SECONDS + seconds))
checked=0
failed=0
for ((i = 0; i < ${#files[@]}; i += jobs)); do
  [ "$SECONDS" -lt "$end" ] || break
  batch=("${files[@]:i:jobs}")
  printf '%s\n' "${batch[@]}" | xargs -P "$jobs" -I{} \
    "$program" -p build --quiet "${flags[@]}" {} \
    2> >(grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -(header|system)' >&2 || true) || failed=1
  checked=$((checked + ${#batch[@]}))
done
left=$((${#files[@]} - checked))
echo "tidy: $checked files checked$([ "$left" = 0 ] || echo ", $left left out after $seconds s: ${files[*]:checked}")"
exit "$failed"
