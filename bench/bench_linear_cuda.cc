// `grille bench linear` without the rest of grille, for a kernels-only build: needs no torch.
#include <cstdio>
#include <fstream>

#include "cli/linear_options.h"
#include "grille/base/error.h"
#include "grille/benchmark/report.h"
#include "grille/benchmark/roofline.h"
#include "grille/benchmark/tune.h"

namespace {

void write(const std::string& path, const std::string& content) {
  std::ofstream file(path);
  grille::check(file.write(content.data(), static_cast<std::streamsize>(content.size())).flush().good(),
                grille::ErrorCode::kNoSpace, "{}: could not be written", path);
}

// A line for each point, so that a run that is cut short shows where it was.
class Lines final : public grille::Progress {
 public:
  void start(std::string_view, std::int64_t total, std::string_view) override { total_ = total; }
  void update(std::int64_t done, std::string_view note) override {
    std::fprintf(stderr, "%lld of %lld: %.*s\n", static_cast<long long>(done), static_cast<long long>(total_),
                 static_cast<int>(note.size()), note.data());
  }
  void finish() override {}

 private:
  std::int64_t total_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Linear layers on a GPU: 2:4 against cuBLASLt and cuSPARSELt");
  grille::benchmark::LinearRequest request;
  std::string svg, json, device = "cuda";
  grille::cli::add_linear_options(app, request, svg);
  app.add_option("--json", json, "Also write the results as JSON")->option_text("FILE");
  app.add_option("--device", device, "cuda or cuda:N");
  CLI11_PARSE(app, argc, argv);
  try {
    grille::benchmark::LinearOptions options = grille::benchmark::linear_options(request);
    options.device = grille::cli::linear_device(device);
    Lines progress;
    if (!request.tune.empty()) {
      grille::benchmark::GrowingPlanFile file(request.tune);
      const auto tuned = grille::benchmark::run_tune(options, file, progress);
      std::fputs(grille::benchmark::tune_table(tuned).c_str(), stdout);
      if (!json.empty()) write(json, grille::benchmark::tune_json(tuned).dump(1) + "\n");
      return 0;
    }
    const auto results = grille::benchmark::run_linear(options, progress);
    std::fputs(grille::benchmark::linear_table(results).c_str(), stdout);
    if (!json.empty()) write(json, grille::benchmark::linear_json(results).dump(1) + "\n");
    if (!svg.empty()) write(svg, grille::benchmark::roofline_svg(results));
  } catch (const grille::Error& error) {
    std::fprintf(stderr, "bench_linear_cuda: %s\n", error.what());
    return error.code() == grille::ErrorCode::kDevice || error.code() == grille::ErrorCode::kInternal ? 1 : 2;
  }
  return 0;
}
