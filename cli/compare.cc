#include "cli/compare.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/compress_options.h"

namespace grille::cli {
namespace {

double largest_error(const compress::Report& report) {
  double largest = 0.0;
  for (const compress::LayerReport& layer : report.layers)
    largest = std::max(largest, layer.relative_error.value_or(0.0));
  return largest;
}

void print(const std::vector<compress::ComparedModel>& models) {
  const bool text = models.front().text_perplexity.has_value();
  std::size_t width = 5;
  for (const auto& model : models) width = std::max(width, model.name.size());
  std::cout << fmt::format("{:{}}  {:>13}  {}{:>10}  {:>10}  {:>8}\n", "", width, "ppl held out",
                           text ? fmt::format("{:>10}  ", "ppl text") : "", "mean error", "max error",
                           "seconds");
  for (const auto& model : models) {
    std::cout << fmt::format("{:{}}  {:13.3f}  ", model.name, width, model.held_out_perplexity);
    if (text) std::cout << fmt::format("{:10.3f}  ", *model.text_perplexity);
    if (!model.report.layers.empty())
      std::cout << fmt::format("{:10.4f}  {:10.4f}  {:8.1f}", mean_error(model.report),
                               largest_error(model.report), model.seconds);
    std::cout << "\n";
  }
}

}  // namespace

nlohmann::json report_comparison(const std::vector<compress::ComparedModel>& models,
                                 const CommandContext& context) {
  if (!context.options.json) print(models);
  nlohmann::json result = {{"models", nlohmann::json::array()}};
  for (const compress::ComparedModel& model : models) {
    nlohmann::json object = report_json(model.report);
    object["name"] = model.name;
    object["perplexity_held_out"] = model.held_out_perplexity;
    object["perplexity_text"] = nullptr;
    if (model.text_perplexity) object["perplexity_text"] = *model.text_perplexity;
    object["seconds"] = model.seconds;
    object["mean_relative_error"] = mean_error(model.report);
    object["largest_relative_error"] = largest_error(model.report);
    result["models"].push_back(std::move(object));
  }
  return result;
}

}  // namespace grille::cli
