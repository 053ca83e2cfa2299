// How a written checkpoint describes itself.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "grille/checkpoint/compressed_tensors.h"
#include "grille/compress/options.h"
#include "grille/models/model_files.h"

namespace grille::compress {

// The forms of all modules that have a weight, by name ("model.embed_tokens", "lm_head", ...).
using ModuleForms = std::map<std::string, checkpoint::LinearForm>;

// The class of a module as configs name it: "Embedding" or "Linear".
std::string class_of(const std::string& module);

// What `source` holds: every module with a stored weight.
ModuleForms forms_in(const checkpoint::TensorSource& source, const checkpoint::CompressionConfig& config);

// The form in the final checkpoint of a weight that has `form` in a part; its inputs are set. Throws
// Error{kInvalidArgument} for 2:4 integers that OutputFormat::kMarlin24 has no room for.
checkpoint::LinearForm final_form(const models::ModelFiles& files, const Options& options,
                                  const std::string& module, checkpoint::LinearForm form);

// The compression config that makes a reader expect just these forms.
checkpoint::CompressionConfig compression_for(const ModuleForms& forms);

// The options as they are recorded in the checkpoint.
nlohmann::json describe(const Options& options);

// config.json of the new checkpoint: the source's with its dtype, compression and provenance.
nlohmann::json output_config(const models::ModelFiles& files, const Options& options, const Report& report,
                             const ModuleForms& forms);

}  // namespace grille::compress
