// A linear benchmark's results as text and as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "grille/benchmark/linear.h"

namespace grille::benchmark {

// Tables of at most 120 columns: device, points, chains, summary, notes.
std::string linear_table(const LinearResults& results);

// Keys: machine, points[], chains[], layer_sums[], summary{contender{baseline{...}}}, notes[].
nlohmann::json linear_json(const LinearResults& results);

// The parts of both that describe the device.
std::string device_lines(const DeviceRecord& device);
nlohmann::json device_json(const DeviceRecord& device);

}  // namespace grille::benchmark
