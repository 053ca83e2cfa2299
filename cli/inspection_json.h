// What `inspect` found, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "grille/compress/inspection.h"

namespace grille::cli {

nlohmann::json to_json(const compress::Inspection& inspection);

}  // namespace grille::cli
