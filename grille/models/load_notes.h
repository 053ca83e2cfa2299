// What a user should know of how a model's weights run.
#pragma once

#include <string>
#include <vector>

#include "grille/models/decoder.h"
#include "grille/models/model_files.h"

namespace grille::models {

// One line for each way in which linear layers run otherwise than they are stored, with the number of layers:
// 2:4 weights that were stored with their zeros, integers, dequantized weights, inputs that stay as they are.
std::vector<std::string> load_notes(const ModelFiles& files, const Decoder& decoder);

}  // namespace grille::models
