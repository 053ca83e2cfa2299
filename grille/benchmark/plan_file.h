// Files of measured plans: what `grille bench linear --tune` writes and `--plans` reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grille/kernels/matmul_24_plan_table.h"

namespace grille::benchmark {

struct MeasuredPlan {
  kernels::Matmul24PlanEntry entry;
  double us = 0;       // of a product, weights from memory
  double rule_us = 0;  // the rule's plan in the same turns; 0: it gave a wrong result
};

// One device's plans.
struct PlanFile {
  std::string device;  // "NVIDIA H200"
  int multiprocessors = 0;
  std::string driver;
  std::string cuda;
  std::string version;  // of grille
  std::vector<MeasuredPlan> plans;

  kernels::Matmul24PlanTable table() const;
};

// `name` stands in errors. Throws Error{kCorruptData} for anything that plan_file_text() would not write:
// unknown versions, missing or mistyped keys, figures out of range, two plans for one problem.
PlanFile parse_plan_file(std::string_view text, const std::string& name);
std::string plan_file_text(const PlanFile& file);

// Throws Error{kNotFound} if there is no such file, and as parse_plan_file() does.
PlanFile read_plan_file(const std::filesystem::path& path);

// `newer` takes the place of an entry of the same problem, or stands behind the others.
void merge_plan(PlanFile& file, const MeasuredPlan& newer);

// A file that grows by one plan after the other, and is whole at any time: each time it is written beside
// itself and renamed. Plans that it had before are kept.
class GrowingPlanFile {
 public:
  // Reads what is there. Throws as read_plan_file() does for a file that is not one of plans, which is not
  // touched.
  explicit GrowingPlanFile(std::filesystem::path path);

  // What the plans to come are measured with. Throws Error{kInvalidArgument} if the file has plans of another
  // device, Error{kNoSpace} if it cannot be written.
  void begin(const PlanFile& header);
  void add(const MeasuredPlan& plan);

  const PlanFile& file() const { return file_; }

 private:
  void write() const;

  std::filesystem::path path_;
  PlanFile file_;
};

}  // namespace grille::benchmark
