// What all commands share: common options, progress on stderr, one JSON object on stdout.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <c10/core/Device.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/progress_bar.h"
#include "grille/base/dtype.h"

namespace grille::cli {

struct CommonOptions {
  std::string device = "auto";
  std::string dtype = "auto";
  int threads = 0;  // 0: all cores
  std::uint64_t seed = 0;
  bool json = false;
  bool quiet = false;
  bool verbose = false;

  // The compute dtype that was asked for; empty for "auto".
  std::optional<DType> compute_dtype() const;
};

// A running command: it reports through `progress` and returns its --json object; in text mode it
// prints its own result.
struct CommandContext {
  const CommonOptions& options;
  at::Device device;  // what --device means here
  Progress& progress;
  const std::string& command_line;  // as it could be typed again
};

using CommandBody = std::function<nlohmann::json(const CommandContext&)>;

// Which devices a command has code for. kCuda: it needs no torch; it checks --device itself, and has no
// --dtype and no --threads.
enum class RunsOn : std::uint8_t { kCpu, kCuda, kCpuOrCuda };

// Registers `name` with the common options on `app`. `body` runs after parsing; what it returns is
// completed with `seconds`, `device` and `version` and printed for --json.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example, CommandBody body, RunsOn runs_on = RunsOn::kCpu);

// Runs what was parsed. Returns the exit status: 0 done, 2 the user's mistake or a full disk, 1 our fault,
// 130 interrupted.
int run_command_line(int argc, char** argv);

// Each registers itself.
void add_bench(CLI::App& app);
void add_bench_throughput(CLI::App& bench);
void add_inspect(CLI::App& app);
void add_prune(CLI::App& app);
void add_quantize(CLI::App& app);
void add_convert(CLI::App& app);
void add_eval(CLI::App& app);
void add_eval_mmlu(CLI::App& eval);
void add_eval_tasks(CLI::App& eval);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_serve(CLI::App& app);

}  // namespace grille::cli
