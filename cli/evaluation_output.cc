#include "cli/evaluation_output.h"

#include <span>

#include <fmt/format.h>

namespace grille::cli {

nlohmann::json accuracy_json(double mean, std::optional<double> standard_error, std::int64_t questions) {
  return {{"acc", mean},
          {"stderr", standard_error ? nlohmann::json(*standard_error) : nlohmann::json(nullptr)},
          {"questions", questions}};
}

std::string accuracy_row(const std::string& name, std::int64_t questions, double mean,
                         std::optional<double> standard_error) {
  return fmt::format("{:<36} {:>6} {:>8.4f}{}\n", name, questions, mean,
                     standard_error ? fmt::format(" +- {:.4f}", *standard_error) : "");
}

void write_whole(checkpoint::OutputFile& file, const std::string& content) {
  file.write_at(0, std::as_bytes(std::span(content)));
  file.finish();
}

}  // namespace grille::cli
