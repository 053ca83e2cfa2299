// Options of `grille bench linear`, shared with bench/bench_linear_cuda; needs no torch.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "grille/benchmark/linear.h"

namespace grille::cli {

inline constexpr const char* kLinearExamples =
    "grille bench linear\n"
    "  grille bench linear --model llama-3-70b --m 1,64,2048 --formats 2:4-fp8 --svg roofline.svg\n"
    "  grille bench linear --shapes 4096x6144,8192x8192 --baselines cublaslt-bf16 --json > linear.json\n"
    "  grille bench linear --tune h200.json && grille bench linear --plans h200.json";

void add_linear_options(CLI::App& command, benchmark::LinearRequest& request, std::string& svg);

// The device that --device names: auto and cuda are 0. Throws Error{kInvalidArgument}, Error{kUnsupported}.
int linear_device(const std::string& device);

}  // namespace grille::cli
