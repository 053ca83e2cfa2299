#include "grille/compress/assemble.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/checkpoint/linear_file.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/compress/part_file.h"
#include "grille/compress/selection.h"

namespace grille::compress {
namespace {

using checkpoint::TensorSpec;
using nlohmann::json;

constexpr std::int64_t kShardBytes = 5'000'000'000;  // as transformers' save_pretrained

// One piece of the model: a linear layer's weight or another tensor, and the part that holds it.
struct Item {
  std::int64_t part = 0;
  std::string name;  // the module, or the tensor's full name
  bool linear = false;
  std::vector<TensorSpec> specs;  // what it is in the final file
  std::int64_t bytes = 0;
};

// The modules whose weights a part holds.
std::vector<std::pair<std::string, std::array<std::int64_t, 2>>> part_modules(const models::DecoderConfig& config,
                                                                              std::int64_t part) {
  std::vector<std::pair<std::string, std::array<std::int64_t, 2>>> modules;
  if (part < 0) {
    modules.push_back({"model.embed_tokens", {config.vocab_size, config.hidden_size}});
    if (!config.tie_word_embeddings) modules.push_back({"lm_head", {config.vocab_size, config.hidden_size}});
    return modules;
  }
  for (const models::Slot slot : models::kSlots) {
    modules.push_back({models::module_name(part, slot), models::slot_shape(config, slot)});
  }
  return modules;
}

class Assembly {
 public:
  Assembly(const models::ModelFiles& files, const Options& options, const Workspace& workspace)
      : config_(files.config),
        form_(options.format == OutputFormat::kDense ? checkpoint::LinearForm::kDense : checkpoint::LinearForm::kCompressed),
        workspace_(workspace) {
    for (std::int64_t part = -1; part < config_.num_layers; ++part) list_part(part);
  }

  // Splits the items into shards, in order, and writes them.
  std::int64_t write() {
    std::vector<std::vector<const Item*>> shards(1);
    std::int64_t filled = 0;
    for (const Item& item : items_) {
      if (filled > 0 && filled + item.bytes > kShardBytes) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().push_back(&item);
      filled += item.bytes;
    }
    std::int64_t total = 0;
    json weight_map = json::object();
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      total += write_shard(name, shards[i], weight_map);
    }
    if (shards.size() > 1) {
      std::int64_t tensor_bytes = 0;
      for (const Item& item : items_) tensor_bytes += item.bytes;
      const json index = {{"metadata", {{"total_size", tensor_bytes}}}, {"weight_map", weight_map}};
      workspace_.write_file("model.safetensors.index.json", index.dump(2) + "\n");
    }
    return total;
  }

 private:
  void list_part(std::int64_t part) {
    const PartFile file(workspace_.part(part));
    std::set<std::string> of_linears;
    for (const auto& [module, shape] : part_modules(config_, part)) {
      const tensors::Weight weight = file.weight(module, shape[0], shape[1]);
      for (const TensorSpec& spec : checkpoint::linear_tensors(module, weight, checkpoint::LinearForm::kCompressed)) {
        of_linears.insert(spec.name);
      }
      add({part, module, true, checkpoint::linear_tensors(module, weight, form_), 0});
    }
    for (const auto& [name, info] : file.source().tensors()) {
      if (!of_linears.contains(name)) add({part, name, false, {{name, info.dtype, info.shape}}, 0});
    }
  }

  void add(Item item) {
    for (const TensorSpec& spec : item.specs) item.bytes += checkpoint::make_tensor_info(spec.dtype, spec.shape)->bytes;
    items_.push_back(std::move(item));
  }

  std::int64_t write_shard(const std::string& name, const std::vector<const Item*>& items, json& weight_map) {
    std::vector<TensorSpec> specs;
    for (const Item* item : items) {
      for (const TensorSpec& spec : item->specs) {
        specs.push_back(spec);
        weight_map[spec.name] = name;
      }
    }
    checkpoint::SafetensorsWriter writer(workspace_.partial() / name, specs);
    std::unique_ptr<PartFile> part;
    std::int64_t open_part = -2;
    for (const Item* item : items) {
      throw_if_interrupted();
      if (item->part != open_part) part = std::make_unique<PartFile>(workspace_.part(item->part));
      open_part = item->part;
      if (item->linear) {
        const auto modules = part_modules(config_, item->part);
        const auto shape = std::find_if(modules.begin(), modules.end(), [&](const auto& m) { return m.first == item->name; });
        checkpoint::write_linear(writer, item->name, part->weight(item->name, shape->second[0], shape->second[1]), form_);
      } else {
        std::vector<std::byte> bytes(static_cast<std::size_t>(item->bytes));
        part->source().read(item->name, bytes);
        writer.write(item->name, bytes);
      }
    }
    writer.finish();
    return writer.file_bytes();
  }

  const models::DecoderConfig& config_;
  checkpoint::LinearForm form_;
  const Workspace& workspace_;
  std::vector<Item> items_;
};

}  // namespace

}  // namespace grille::compress
