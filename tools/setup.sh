#!/usr/bin/env bash
# Brings a Debian 12 or Ubuntu 24.04 machine to where grille builds:
#
#   tools/setup.sh [build|demo|test|bench]     each includes those before it; default: test
#
# Debian packages are installed if this runs as root; otherwise the line to run is printed, with exit
# status 2 (GRILLE_SKIP_PACKAGES=1: they are not looked at). Python wheels go into .venv at pinned versions (tools/requirements-*.txt). What is there
# already is left alone: a second call takes well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."

level=${1:-test}
case $level in
  build) sets="build" ;;
  demo) sets="build model" ;;
  test) sets="build model test" ;;
  bench) sets="build model test bench" ;;
  *) echo "tools/setup.sh: expected build, demo, test or bench, got '$level'" >&2; exit 2 ;;
esac
oldest_cargo=1.82

say() { echo "setup: $*" >&2; }
stop() { echo "setup: $*" >&2; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }

# True if cargo is there and not older than oldest_cargo.
cargo_is_new() {
  have cargo || return 1
  local found
  found=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ "$(printf '%s\n' "$oldest_cargo" "$found" | sort -V | head -n 1)" = "$oldest_cargo" ]
}

# Prints the packages that are missing.
missing_packages() {
  have cmake || echo cmake
  have ninja || echo ninja-build
  have c++ || echo g++
  have git || echo git
  have ccache || echo ccache
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  if [[ $sets == *test* ]]; then
    have clang-tidy || echo clang-tidy
    # The web page is tested in it. Ubuntu has it as a snap only; there the test is skipped.
    have chromium || ! grep -q '^ID=debian' /etc/os-release 2>/dev/null || echo chromium
  fi
  local libraries="libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libgtest-dev libbenchmark-dev"
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $libraries 2>/dev/null || true)
  for package in $libraries; do
    grep -q "^$package installed$" <<<"$installed" || echo "$package"
  done
  boost_is_new || boost_package
  cargo_is_new || cargo_packages
}

# True if Boost's headers are there and not older than 1.81 (Asio's coroutines).
boost_is_new() {
  local header version
  for header in /usr/include/boost/version.hpp /usr/local/include/boost/version.hpp; do
    version=$(sed -n 's/^#define BOOST_VERSION //p' "$header" 2>/dev/null) || continue
    [ "${version:-0}" -ge 108100 ] && return 0
  done
  return 1
}

# Debian 12's own Boost is older, and a newer one is beside it.
boost_package() {
  if grep -q '^VERSION_ID="12"' /etc/os-release 2>/dev/null; then echo libboost1.81-dev; else echo libboost-dev; fi
}

# The packages of a new enough cargo: Debian's for building browsers, else the newest versioned one (Ubuntu).
cargo_packages() {
  if grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
    echo cargo-web rustc-web
    return
  fi
  local versioned
  versioned=$(apt-cache search --names-only '^cargo-1\.[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
  if [ -n "$versioned" ]; then
    echo "$versioned rustc-${versioned#cargo-}"
  else
    echo cargo
  fi
}

install_packages() {
  [ -z "${GRILLE_SKIP_PACKAGES:-}" ] || return 0
  have dpkg-query || stop "this script knows Debian's packages only. Install cmake >= 3.25, ninja, g++ >= 12," \
    "Python >= 3.10 with venv, cargo >= $oldest_cargo, clang-tidy, and the libraries Boost >= 1.81, fmt, spdlog, nlohmann-json," \
    "CLI11, zlib, GoogleTest and Google Benchmark, then try again with GRILLE_SKIP_PACKAGES=1."
  local packages
  packages=$(missing_packages | tr '\n' ' ')
  [ -n "${packages// /}" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    stop "packages are missing. Run this, then try again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends $packages"
  fi
  say "apt-get update"
  apt-get update -qq >&2
  packages=$(missing_packages | tr '\n' ' ')  # an empty list of packages hides what is to be had
  say "installing: $packages"
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2
}

# Ubuntu's versioned cargo is not on PATH: link it where the Makefile looks first.
link_versioned_cargo() {
  cargo_is_new && return 0
  local bin
  bin=$(ls -d /usr/lib/rust-1.*/bin 2>/dev/null | sort -V | tail -n 1)
  [ -n "$bin" ] || stop "no cargo >= $oldest_cargo found: install one, then try again"
  ln -sf "$bin/cargo" "$bin/rustc" .venv/bin/
  PATH="$PWD/.venv/bin:$PATH"
  cargo_is_new || stop "cargo in $bin is older than $oldest_cargo"
}

make_venv() {
  .venv/bin/python -c '' 2>/dev/null && return 0
  have python3 || stop "no python3"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "Python 3.10 or newer is needed, found $(python3 --version)"
  say "creating .venv with $(python3 --version)"
  python3 -m venv .venv
}

# Installs one requirements file unless its stamp says that it was.
install_wheels() {
  local set=$1 file=tools/requirements-$1.txt stamp=.venv/.requirements-$1
  shift
  local hash
  hash=$(sha256sum <"$file")
  [ "$(cat "$stamp" 2>/dev/null)" != "$hash" ] || return 0
  say "installing the $set wheels: $(grep -v '^#' "$file" | cut -d';' -f1 | cut -d'#' -f1 | sort -u | tr '\n' ' ')"
  .venv/bin/python -m pip install --disable-pip-version-check --quiet "$@" -r "$file" >&2
  echo "$hash" >"$stamp"
}

# nvcc's profile and CMake look for lib64; the wheel has lib.
link_cuda_lib64() {
  local root
  for root in .venv/lib/python3*/site-packages/nvidia/cu13; do
    [ ! -d "$root/lib" ] || [ -e "$root/lib64" ] || ln -s lib "$root/lib64"
  done
}

PATH="$PWD/.venv/bin:$PATH"
install_packages
make_venv
link_versioned_cargo
for set in $sets; do
  case $set in
    model) install_wheels model --no-deps ;;
    bench) CMAKE_ARGS="${CMAKE_ARGS:--DGGML_NATIVE=ON}" install_wheels bench ;;
    *) install_wheels "$set" ;;
  esac
done
link_cuda_lib64
