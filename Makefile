# make          set up, configure and build; the program is build/bin/grille
# make demo     prune, quantize and compare a real model; models stay under build/demo/.
#               TEXT=FILE gives your own text to calibrate with and to evaluate on
# make test     everything that can be checked without a GPU
# make help     all targets
#
# JOBS=N compiles and tests with N processes. CMAKE_FLAGS=... is added when a build is configured.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CTEST_OUTPUT_ON_FAILURE := 1
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
FUZZ_RUNS ?= 1000000
TIDY_SECONDS ?= 120
RUST_ARCHIVE := build/rust/release/libgrille_text.a
PYTHON := .venv/bin/python

.PHONY: all demo test build-all configure bench fuzz format format-check tidy clean help
.PHONY: setup-build setup-demo setup-test setup-bench
.NOTPARALLEL:

all: configure
	@cmake --build build -j $(JOBS) --target bin/grille

help:
	@sed -n '1,/^SHELL/s/^# \{0,1\}//p' Makefile
	@echo "make bench    speed against the best dense libraries, with the machine's limits"
	@echo "make fuzz     FUZZ_RUNS=1000000 random inputs a parser, under the address sanitizer"
	@echo "make format   format all sources;  make tidy: clang-tidy on all;  make clean: remove build*/"

setup-build setup-demo setup-test setup-bench: setup-%:
	@tools/setup.sh $*

# CMake runs again by itself when one of its files changes.
configure: setup-build
	@[ -f build/build.ninja ] || cmake -S . -B build -G Ninja $(CMAKE_FLAGS)

demo: setup-demo all
	@$(PYTHON) tools/demo.py $(if $(TEXT),--text "$(TEXT)")

build-all: setup-test configure
	@cmake --build build -j $(JOBS)

test: setup-test
	$(PYTHON) tools/check_layers.py
	@$(MAKE) --no-print-directory format-check
	@$(MAKE) --no-print-directory build-all
	@tools/tidy.sh --changed $(TIDY_SECONDS)
	@$(MAKE) --no-print-directory fuzz FUZZ_RUNS=100000
	ctest --test-dir build -LE fuzz -j $(JOBS)
	@$(PYTHON) -m pytest -q tests || { status=$$?; [ $$status = 5 ] && echo "pytest: no Python tests"; }

bench: setup-bench build-all
	@tools/bench.sh

# The parsers' random tests, in a build of their own that holds just what they need.
fuzz: setup-test configure
	@cmake --build build --target grille_text_rust
	@[ -f build-asan/build.ninja ] || cmake --preset asan -DGRILLE_TEXT_LIBRARY=$(CURDIR)/$(RUST_ARCHIVE)
	@cmake --build build-asan -j $(JOBS) --target fuzz_tests
	GRILLE_FUZZ_RUNS=$(FUZZ_RUNS) \
	  ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0:max_allocation_size_mb=4096 \
	  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  ctest --test-dir build-asan -L fuzz -j $(JOBS)

format: setup-test
	@tools/format.sh

format-check: setup-test
	@tools/format.sh --check

tidy: setup-test
	@tools/tidy.sh --all

clean:
	rm -rf build build-*
