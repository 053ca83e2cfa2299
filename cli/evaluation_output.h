// How the commands that count right answers print them and write samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "grille/checkpoint/output_file.h"

namespace grille::cli {

// {"acc", "stderr", "questions"}; a missing standard error is null.
nlohmann::json accuracy_json(double mean, std::optional<double> standard_error, std::int64_t questions);

// A table's line: name, questions, accuracy and its standard error.
std::string accuracy_row(const std::string& name, std::int64_t questions, double mean,
                         std::optional<double> standard_error);

// Makes `content` the whole file. Throws as OutputFile does.
void write_whole(checkpoint::OutputFile& file, const std::string& content);

}  // namespace grille::cli
