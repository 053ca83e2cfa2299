#include "cli/command.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <span>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/base/parallel.h"
#include "grille/tensors/device.h"

namespace grille::cli {
namespace {

// Quoted where a shell would need it.
std::string typed_command;

std::string quoted(const std::string& argument) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) return argument;
  std::string result = "'";
  for (const char c : argument) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

constexpr int kExitFault = 1;
constexpr int kExitUser = 2;
constexpr int kExitInterrupted = 130;

// The first signal asks the loops to stop; a second one ends the process at once.
extern "C" void on_signal(int signal) {
  if (interrupt_requested()) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  request_interrupt();
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void add_cpu_options(CLI::App& command, CommonOptions& options, const std::string& group) {
  command.add_option("--dtype", options.dtype, "Compute in auto (the model's), float32, bfloat16 or float16")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->group(group);
  command.add_option("--threads", options.threads, "CPU threads; 0: every core")
      ->check(CLI::Range(0, 1024))
      ->group(group);
}

void add_common_options(CLI::App& command, CommonOptions& options, RunsOn runs_on) {
  const std::string group = "Common options";
  const char* devices =
      "cpu (default), cuda or cuda:N (experimental: results are not yet compared with the CPU's)";
  if (runs_on == RunsOn::kCpu) devices = "cpu (CUDA comes to this command in a later version)";
  if (runs_on == RunsOn::kCuda) devices = "cuda or cuda:N";
  command.add_option("--device", options.device, devices)->option_text("DEVICE")->group(group);
  if (runs_on != RunsOn::kCuda) add_cpu_options(command, options, group);
  command.add_option("--seed", options.seed, "Random seed")->group(group)->capture_default_str();
  command.add_flag("--json", options.json, "Print one JSON object to stdout and nothing else")->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no log")->group(group);
  command.add_flag("--verbose", options.verbose, "More log")->group(group);
}

// The most memory that this process has held at once.
std::int64_t peak_host_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

at::Device resolve_device(const std::string& command, const std::string& device, RunsOn runs_on) {
  const bool cpu = device == "auto" || device == "cpu";
  if (runs_on == RunsOn::kCuda || cpu) return at::kCPU;  // kCuda: resolved without torch
  check(runs_on == RunsOn::kCpuOrCuda, ErrorCode::kUnsupported,
        "--device {}: '{}' has no CUDA path yet; leave it out or use --device cpu", device, command);
  return tensors::open_device(device);
}

// The result's entries on what the command used, and the last line of its log.
void report_use(nlohmann::json& result, const std::string& device, const at::Device& on, double seconds) {
  const std::int64_t peak = peak_host_bytes();
  result["seconds"] = seconds;
  result["device"] = device;
  result["peak_host_bytes"] = peak;
  result["version"] = GRILLE_VERSION;
  std::string memory = fmt::format("peak memory {} MB", peak / 1'000'000);
  if (on.is_cuda()) {
    const std::int64_t peak_device = tensors::peak_device_bytes(on);
    result["peak_device_bytes"] = peak_device;
    memory += fmt::format(", {} MB on the device", peak_device / 1'000'000);
  }
  // At the end: an error is one line on stderr and nothing else.
  const std::string where = device == "cpu" ? fmt::format("the CPU, {} threads", num_threads()) : device;
  spdlog::info("on {}: {:.1f} s, {}", where, seconds, memory);
}

nlohmann::json run_body(const std::string& name, const CommonOptions& options, const CommandBody& body,
                        RunsOn runs_on) {
  auto logger = spdlog::stderr_color_st("grille");
  logger->set_pattern("%v");
  logger->set_level(options.quiet     ? spdlog::level::warn
                    : options.verbose ? spdlog::level::debug
                                      : spdlog::level::info);
  spdlog::set_default_logger(logger);
  const at::Device device = resolve_device(name, options.device, runs_on);
  if (options.threads > 0) {
    set_num_threads(options.threads);
    at::set_num_threads(options.threads);
  }

  ProgressBar progress(options.quiet);
  const c10::InferenceMode inference;
  const auto begin = std::chrono::steady_clock::now();
  nlohmann::json result = body({options, device, progress, typed_command});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string without_torch = options.device == "auto" ? "cuda" : options.device;
  report_use(result, runs_on == RunsOn::kCuda ? without_torch : device.str(), device, seconds);
  return result;
}

void flush_stdout() {
  check(std::fflush(stdout) == 0 && std::cout.flush().good(), ErrorCode::kNoSpace,
        "stdout: the result could not be written");
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled: return kExitInterrupted;
    case ErrorCode::kInternal:
    case ErrorCode::kDevice: return kExitFault;
    default: return kExitUser;
  }
}

int report(int status, const std::string& message) {
  std::fputs(("grille: " + message + "\n").c_str(), stderr);
  return status;
}

// Throws where `words` begin with a command that is none of `app`'s ("eval mmlu" is looked at twice).
void check_command(const CLI::App& app, std::span<const char* const> words, const std::string& before = "") {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || words.empty() || words.front()[0] == '-') return;
  const std::string name = before + words.front();
  std::string known;
  for (const CLI::App* command : commands) {
    if (command->get_name() == words.front()) return check_command(*command, words.subspan(1), name + " ");
    known += (known.empty() ? "" : ", ") + before + command->get_name();
  }
  fail(ErrorCode::kInvalidArgument, "unknown command '{}'; there are: {}", name, known);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::optional<DType> CommonOptions::compute_dtype() const {
  return dtype == "auto" ? std::nullopt : dtype_from_name(dtype);
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example, CommandBody body, RunsOn runs_on) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("Example:\n  " + example + "\n");
  auto options = std::make_shared<CommonOptions>();
  add_common_options(*command, *options, runs_on);
  command->callback([name, options, body = std::move(body), runs_on] {
    const nlohmann::json result = run_body(name, *options, body, runs_on);
    if (options->json) std::cout << result.dump() << "\n";
    flush_stdout();
  });
  return command;
}

int run_command_line(int argc, char** argv) {
  install_signal_handlers();
  typed_command = "grille";
  for (int i = 1; i < argc; ++i) typed_command += " " + quoted(argv[i]);
  CLI::App app("grille makes language models sparse, small and fast, and keeps them good.", "grille");
  app.set_version_flag("--version", GRILLE_VERSION);
  app.require_subcommand(1);
  app.footer("'grille COMMAND --help' explains a command.");
  for (const auto add : {add_inspect, add_prune, add_quantize, add_convert, add_eval, add_generate, add_chat,
                         add_serve, add_bench})
    add(app);
  try {
    check_command(
        app, std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0));
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return report(kExitUser, first_line(error.what()) + " (see --help)");
  } catch (const Error& error) {
    return report(exit_status(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return report(kExitUser,
                  "out of memory: use a smaller model, --context or --samples, or a larger machine");
  } catch (const std::exception& error) {
    return report(kExitFault, std::string("internal error: ") + first_line(error.what()));
  }
}

}  // namespace grille::cli
