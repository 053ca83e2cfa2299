#include "grille/compress/assemble.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/checkpoint/safetensors_writer.h"
#include "grille/compress/output_config.h"
#include "grille/compress/part_file.h"

namespace grille::compress {
namespace {

using checkpoint::TensorSpec;
using nlohmann::json;

constexpr std::int64_t kShardBytes = 5'000'000'000;  // as transformers' save_pretrained
constexpr std::int64_t kFrame = -1;

// One piece of the model: a module's weight or another tensor, and the part that holds it.
struct Item {
  std::int64_t part = kFrame;
  std::string name;  // the module, or the tensor's full name
  bool linear = false;
  std::vector<TensorSpec> specs;  // what it is in the final file
  std::int64_t bytes = 0;
};

class Assembly {
 public:
  Assembly(const models::ModelFiles& files, const Options& options, const Workspace& workspace)
      : files_(files), options_(options), workspace_(workspace) {
    for (std::int64_t part = kFrame; part < files.config.num_layers; ++part) list_part(part);
  }

  const ModuleForms& forms() const { return forms_; }

  // Splits the items into shards, in order, and writes them.
  std::int64_t write() {
    std::vector<std::vector<const Item*>> shards(1);
    std::int64_t filled = 0;
    std::int64_t tensor_bytes = 0;
    for (const Item& item : items_) {
      if (filled > 0 && filled + item.bytes > kShardBytes) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().push_back(&item);
      filled += item.bytes;
      tensor_bytes += item.bytes;
    }
    std::int64_t file_bytes = 0;
    json weight_map = json::object();
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      file_bytes += write_shard(name, shards[i], weight_map);
    }
    if (shards.size() > 1) {
      const json index = {{"metadata", {{"total_size", tensor_bytes}}}, {"weight_map", weight_map}};
      workspace_.write_file("model.safetensors.index.json", index.dump(2) + "\n");
    }
    return file_bytes;
  }

 private:
  void list_part(std::int64_t part) {
    const PartFile file(workspace_.part(part));
    std::set<std::string> of_linears;
    for (auto [module, form] : file.forms()) {
      for (const TensorSpec& spec : checkpoint::linear_tensors(module, form)) of_linears.insert(spec.name);
      form = final_form(files_, options_, module, form);
      add({part, module, true, checkpoint::linear_tensors(module, form), 0});
      forms_.emplace(module, form);
    }
    for (const auto& [name, info] : file.source().tensors()) {
      if (!of_linears.contains(name)) add({part, name, false, {{name, info.dtype, info.shape}}, 0});
    }
  }

  void add(Item item) {
    for (const TensorSpec& spec : item.specs)
      item.bytes += checkpoint::make_tensor_info(spec.dtype, spec.shape)->bytes;
    items_.push_back(std::move(item));
  }

  std::int64_t write_shard(const std::string& name, const std::vector<const Item*>& items,
                           json& weight_map) const {
    std::vector<TensorSpec> specs;
    for (const Item* item : items) {
      for (const TensorSpec& spec : item->specs) {
        specs.push_back(spec);
        weight_map[spec.name] = name;
      }
    }
    checkpoint::SafetensorsWriter writer(workspace_.partial() / name, specs);
    std::unique_ptr<PartFile> part;
    std::int64_t open_part = kFrame - 1;
    for (const Item* item : items) {
      throw_if_interrupted();
      if (item->part != open_part) part = std::make_unique<PartFile>(workspace_.part(item->part));
      open_part = item->part;
      if (item->linear) {
        checkpoint::write_linear(writer, item->name, part->weight(item->name),
                                 forms_.at(item->name).encoding);
      } else {
        std::vector<std::byte> bytes(static_cast<std::size_t>(item->bytes));
        part->source().read(item->name, bytes);
        writer.write(item->name, bytes);
      }
    }
    writer.finish();
    return writer.file_bytes();
  }

  const models::ModelFiles& files_;
  const Options& options_;
  const Workspace& workspace_;
  std::vector<Item> items_;
  ModuleForms forms_;  // in the final file
};

}  // namespace

std::int64_t assemble(const models::ModelFiles& files, const Options& options, const Report& report,
                      const Workspace& workspace) {
  Assembly assembly(files, options, workspace);
  const std::int64_t file_bytes = assembly.write();
  workspace.write_file("config.json", output_config(files, options, report, assembly.forms()).dump(2) + "\n");
  for (const auto& [name, contents] : models::side_files(files)) workspace.write_file(name, contents);
  return file_bytes;
}

}  // namespace grille::compress
