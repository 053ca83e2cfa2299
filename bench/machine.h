// The machine that a measurement ran on, as results name it.
#pragma once

#include <nlohmann/json.hpp>

namespace grille::bench {

// {"cpu": model name, "cpus": online, "isa": active_isa(), "last_level_cache_bytes": ...}
nlohmann::json machine();

}  // namespace grille::bench
