#include "grille/benchmark/plan_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/formats/two_four_sm90.h"

namespace grille::benchmark {
namespace {

using kernels::Matmul24Kernel;
using kernels::Matmul24PlanEntry;
using kernels::Matmul24Sm90Plan;
using nlohmann::json;

constexpr const char* kFormat = "grille matmul_24_sm90 plans";
constexpr int kVersion = 1;
constexpr std::uintmax_t kLargestFile = 16 << 20;
constexpr int kDeepest = 4;
constexpr std::int64_t kLargestSide = std::int64_t{1} << 24;
constexpr std::int64_t kLargestField = 4096;  // of a plan: no multiprocessor or block has more of anything
constexpr double kLargestUs = 1e9;

// Reads the keys of one object; every error names the file and the place in it.
class Reader {
 public:
  Reader(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    check(object.is_object(), ErrorCode::kCorruptData, "{}: expected an object", place_);
  }

  const json& at(const char* key) const {
    const auto found = object_.find(key);
    check(found != object_.end(), ErrorCode::kCorruptData, "{}: there is no \"{}\"", place_, key);
    return *found;
  }

  std::string text(const char* key) const {
    const json& value = at(key);
    check(value.is_string(), ErrorCode::kCorruptData, "{}: \"{}\" is not a text", place_, key);
    return value.get<std::string>();
  }

  bool flag(const char* key) const {
    const json& value = at(key);
    check(value.is_boolean(), ErrorCode::kCorruptData, "{}: \"{}\" is not true or false", place_, key);
    return value.get<bool>();
  }

  std::int64_t number(const char* key, std::int64_t least, std::int64_t most) const {
    const json& value = at(key);
    // Whole numbers above 2^63 would turn negative.
    const bool whole = value.is_number_integer() &&
                       (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
    const std::int64_t number = whole ? value.get<std::int64_t>() : 0;
    check(whole && number >= least && number <= most, ErrorCode::kCorruptData,
          "{}: \"{}\" is not a whole number from {} to {}", place_, key, least, most);
    return number;
  }

  int field(const char* key, std::int64_t least = 0) const {
    return static_cast<int>(number(key, least, kLargestField));
  }

  double microseconds(const char* key) const {
    const json& value = at(key);
    const double us = value.is_number() ? value.get<double>() : -1;
    check(us >= 0 && us <= kLargestUs, ErrorCode::kCorruptData, "{}: \"{}\" is not a time in microseconds",
          place_, key);
    return us;
  }

  const std::string& place() const { return place_; }

 private:
  const json& object_;
  std::string place_;
};

Matmul24Sm90Plan plan_of(const Reader& r) {
  const std::string kernel = r.text("kernel");
  check(kernel == "stream" || kernel == "large", ErrorCode::kCorruptData,
        "{}: kernel \"{}\", expected stream or large", r.place(), kernel);
  return {.kernel = kernel == "large" ? Matmul24Kernel::kLarge : Matmul24Kernel::kStream,
          .row_tile = r.field("row_tile", 1),
          .token_tile = r.field("token_tile", 1),
          .stages = r.field("stages"),
          .cluster = r.field("cluster", 1),
          .group_rows = r.field("group_rows", 1),
          .clusters = r.field("clusters", 1),
          .resident_x = r.flag("resident_x"),
          .promote = r.flag("promote"),
          .split = r.flag("split")};
}

MeasuredPlan measured_of(const Reader& r, int multiprocessors) {
  const std::string name = r.text("dtype");
  const std::optional<DType> dtype = dtype_from_name(name);
  check(dtype && formats::is_sm90_dtype(*dtype), ErrorCode::kCorruptData,
        "{}: dtype \"{}\", expected bfloat16, float16, float8_e4m3fn or int8", r.place(), name);
  MeasuredPlan measured;
  measured.entry = {.multiprocessors = multiprocessors,
                    .dtype = *dtype,
                    .n = r.number("n", 1, kLargestSide),
                    .k = r.number("k", 4, kLargestSide),
                    .m = r.number("m", 1, kLargestSide),
                    .plan = plan_of(r)};
  measured.us = r.microseconds("us");
  measured.rule_us = r.microseconds("rule_us");
  return measured;
}

json json_of(const MeasuredPlan& measured) {
  const Matmul24PlanEntry& e = measured.entry;
  const Matmul24Sm90Plan& p = e.plan;
  return {{"dtype", dtype_name(e.dtype)},
          {"n", e.n},
          {"k", e.k},
          {"m", e.m},
          {"kernel", p.kernel == Matmul24Kernel::kLarge ? "large" : "stream"},
          {"row_tile", p.row_tile},
          {"token_tile", p.token_tile},
          {"stages", p.stages},
          {"cluster", p.cluster},
          {"group_rows", p.group_rows},
          {"clusters", p.clusters},
          {"resident_x", p.resident_x},
          {"promote", p.promote},
          {"split", p.split},
          {"us", std::round(measured.us * 1e4) * 1e-4},
          {"rule_us", std::round(measured.rule_us * 1e4) * 1e-4}};
}

json parse(std::string_view text, const std::string& name) {
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    check(depth <= kDeepest, ErrorCode::kCorruptData, "{}: not a file of plans: nested too deeply", name);
    return true;
  };
  try {
    return json::parse(text, shallow);
  } catch (const json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: not a file of plans: it is not JSON", name);
  }
}

}  // namespace

kernels::Matmul24PlanTable PlanFile::table() const {
  std::vector<Matmul24PlanEntry> entries;
  entries.reserve(plans.size());
  for (const MeasuredPlan& measured : plans) entries.push_back(measured.entry);
  return kernels::Matmul24PlanTable(std::move(entries));
}

PlanFile parse_plan_file(std::string_view text, const std::string& name) {
  const json root = parse(text, name);
  const Reader r(root, name);
  check(root.contains("format") && root["format"] == kFormat, ErrorCode::kCorruptData,
        "{}: not a file of plans: its format is not \"{}\"", name, kFormat);
  const std::int64_t version = r.number("version", 0, kLargestField);
  check(version == kVersion, ErrorCode::kCorruptData, "{}: version {} of plans; this build reads version {}",
        name, version, kVersion);
  PlanFile file;
  file.device = r.text("device");
  file.multiprocessors = r.field("multiprocessors", 1);
  file.driver = r.text("driver");
  file.cuda = r.text("cuda");
  file.version = r.text("grille");
  const json& plans = r.at("plans");
  check(plans.is_array(), ErrorCode::kCorruptData, "{}: \"plans\" is not a list", name);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Reader entry(plans[i], fmt::format("{}: plan {}", name, i));
    file.plans.push_back(measured_of(entry, file.multiprocessors));
  }
  try {
    file.table();
  } catch (const Error& error) {
    fail(ErrorCode::kCorruptData, "{}: {}", name, error.what());
  }
  return file;
}

std::string plan_file_text(const PlanFile& file) {
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = fmt::format(
      "{{\n \"format\": \"{}\",\n \"version\": {},\n \"device\": {},\n \"multiprocessors\": {},\n "
      "\"driver\": "
      "{},\n \"cuda\": {},\n \"grille\": {},\n \"plans\": [",
      kFormat, kVersion, quoted(file.device), file.multiprocessors, quoted(file.driver), quoted(file.cuda),
      quoted(file.version));
  const char* separator = "\n  ";
  for (const MeasuredPlan& measured : file.plans) {  // a line each, so that files can be compared
    text += separator + json_of(measured).dump();
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

PlanFile read_plan_file(const std::filesystem::path& path) {
  std::error_code error;
  check(std::filesystem::exists(path, error), ErrorCode::kNotFound, "{}: no such file", path.string());
  check(std::filesystem::is_regular_file(path, error), ErrorCode::kCorruptData, "{}: not a file of plans",
        path.string());
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  check(!error && bytes <= kLargestFile, ErrorCode::kCorruptData,
        "{}: not a file of plans: {} bytes, expected at most {}", path.string(), bytes, kLargestFile);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  check(stream.good() && content.good(), ErrorCode::kCorruptData, "{}: cannot be read, or is empty",
        path.string());
  return parse_plan_file(content.str(), path.string());
}

void merge_plan(PlanFile& file, const MeasuredPlan& newer) {
  const auto same = std::find_if(file.plans.begin(), file.plans.end(), [&](const MeasuredPlan& old) {
    return is_same_problem(old.entry, newer.entry);
  });
  if (same == file.plans.end()) {
    file.plans.push_back(newer);
  } else {
    *same = newer;
  }
}

GrowingPlanFile::GrowingPlanFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::exists(path_, error)) file_ = read_plan_file(path_);
}

void GrowingPlanFile::begin(const PlanFile& header) {
  check(file_.plans.empty() ||
            (file_.device == header.device && file_.multiprocessors == header.multiprocessors),
        ErrorCode::kInvalidArgument,
        "{}: has plans of {} with {} multiprocessors, this is {} with {}; give another file", path_.string(),
        file_.device, file_.multiprocessors, header.device, header.multiprocessors);
  std::vector<MeasuredPlan> kept = std::move(file_.plans);
  file_ = header;
  file_.plans = std::move(kept);
  write();  // what cannot be written should be known before it is measured
}

void GrowingPlanFile::add(const MeasuredPlan& plan) {
  merge_plan(file_, plan);
  write();
}

void GrowingPlanFile::write() const {
  const std::string partial = path_.string() + ".partial";
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  stream << plan_file_text(file_);
  stream.close();
  std::error_code error;
  const bool written = !stream.fail();
  if (written) std::filesystem::rename(partial, path_, error);
  if (written && !error) return;
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  fail(ErrorCode::kNoSpace, "{}: cannot be written", path_.string());
}

}  // namespace grille::benchmark
