#include "bench/machine.h"

#include <fstream>
#include <string>
#include <thread>

#include "bench/read_bandwidth.h"
#include "grille/base/cpu_features.h"

namespace grille::bench {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

nlohmann::json machine() {
  return {{"cpu", cpu_model()},
          {"cpus", std::thread::hardware_concurrency()},
          {"isa", isa_name(active_isa())},
          {"last_level_cache_bytes", last_level_cache_bytes()}};
}

}  // namespace grille::bench
