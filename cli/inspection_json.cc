#include "cli/inspection_json.h"

namespace grille::cli {

nlohmann::json to_json(const compress::Inspection& inspection) {
  nlohmann::json layers = nlohmann::json::array();
  for (const compress::LayerInspection& layer : inspection.layers) {
    layers.push_back({{"name", layer.name},
                      {"shape", {layer.rows, layer.cols}},
                      {"format", layer.format},
                      {"dtype", layer.dtype},
                      {"stored_bytes", layer.stored_bytes},
                      {"sparsity", layer.sparsity},
                      {"two_four", layer.two_four},
                      {"violations", layer.violations}});
  }
  nlohmann::json object = {{"architecture", inspection.architecture},
                           {"parameters", inspection.parameters},
                           {"file_bytes", inspection.file_bytes},
                           {"layers", layers},
                           {"provenance", nullptr}};
  if (inspection.provenance) object["provenance"] = checkpoint::to_json(*inspection.provenance);
  return object;
}

}  // namespace grille::cli
