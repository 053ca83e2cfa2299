#include "grille/benchmark/tune.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "grille/benchmark/report.h"

namespace grille::benchmark {
namespace {

constexpr std::size_t kFinalists = 5;  // besides the rule's plan
constexpr double kNoise = 0.005;       // by which a plan must be faster than the rule's

// "1.08x", or "-" where one of the two is not known.
std::string gain(double rule_us, double best_us) {
  return rule_us > 0 && best_us > 0 ? fmt::format("{:.3f}x", rule_us / best_us) : "-";
}

std::string time(double us) { return us > 0 ? fmt::format("{:.2f}", us) : "wrong"; }

std::string point_lines(const TunedPoint& p) {
  const std::string place = fmt::format("m={} {} {}x{}", p.m, p.shape.name, p.shape.k, p.shape.n);
  std::string tried = fmt::format("{} tried", p.right + p.wrong + p.refused);
  if (p.wrong > 0) tried += fmt::format(", {} wrong", p.wrong);
  if (p.refused > 0) tried += fmt::format(", {} refused", p.refused);
  return fmt::format("{:<26}{:<10}{:>9}{:>9}  rule: {}\n{:<26}{:<10}{:>9}{:>9}  best: {}\n", place, p.format,
                     time(p.rule_us), "", p.rule, tried, "", time(p.best_us), gain(p.rule_us, p.best_us),
                     p.best);
}

// The times of a format's points added up, where both are known.
std::string sum_line(const std::vector<TunedPoint>& points, const std::string& format) {
  double rule = 0, best = 0, logs = 0;
  int count = 0, changed = 0;
  for (const TunedPoint& p : points) {
    if (p.format != format || p.rule_us <= 0 || p.best_us <= 0) continue;
    rule += p.rule_us;
    best += p.best_us;
    logs += std::log(p.rule_us / p.best_us);
    ++count;
    changed += p.rule != p.best ? 1 : 0;
  }
  if (count == 0) return "";
  return fmt::format("{:<10}{:>7}{:>10}{:>14.2f}{:>14.2f}{:>11.3f}{:>12.3f}\n", format, count, changed, rule,
                     best, rule / best, std::exp(logs / count));
}

}  // namespace

PlanChoice choose_plan(std::size_t candidates, CandidateTimer& timer) {
  PlanChoice choice;
  std::vector<std::pair<double, std::size_t>> estimates;
  for (std::size_t i = 0; i < candidates; ++i) {
    const std::optional<double> error = timer.error(i);
    if (!error) {
      ++choice.refused;
    } else if (!(*error <= 1)) {  // a NaN is wrong
      choice.wrong.push_back(i);
    } else {
      estimates.emplace_back(timer.estimate(i), i);
    }
  }
  choice.right = static_cast<int>(estimates.size());
  if (estimates.empty()) return choice;
  std::sort(estimates.begin(), estimates.end());
  std::vector<std::size_t> finalists;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    if (i < kFinalists || estimates[i].second == 0) finalists.push_back(estimates[i].second);
  }
  const std::vector<double> seconds = timer.measure(finalists);
  const auto least = std::min_element(seconds.begin(), seconds.end());
  choice.best = finalists[static_cast<std::size_t>(least - seconds.begin())];
  choice.best_seconds = *least;
  const auto rule = std::find(finalists.begin(), finalists.end(), std::size_t{0});
  if (rule == finalists.end()) return choice;
  choice.rule_seconds = seconds[static_cast<std::size_t>(rule - finalists.begin())];
  if (choice.rule_seconds <= choice.best_seconds * (1 + kNoise)) {
    choice.best = 0;
    choice.best_seconds = choice.rule_seconds;
  }
  return choice;
}

PlanFile plan_file_header(const DeviceRecord& device) {
  PlanFile file;
  file.device = device.name;
  file.multiprocessors = device.multiprocessors;
  file.driver = device.driver;
  file.cuda = device.cuda_runtime;
  file.version = GRILLE_VERSION;
  return file;
}

std::string tune_table(const TuneResults& results) {
  std::string text = device_lines(results.device) +
                     fmt::format("\n{:<26}{:<10}{:>9}{:>9}  plan\n", "point", "format", "us", "gain");
  std::vector<std::string> formats;
  for (const TunedPoint& p : results.points) {
    text += point_lines(p);
    if (std::find(formats.begin(), formats.end(), p.format) == formats.end()) formats.push_back(p.format);
  }
  text += fmt::format("\n{:<10}{:>7}{:>10}{:>14}{:>14}{:>11}{:>12}\n", "format", "points", "changed",
                      "rule sum us", "best sum us", "sums", "geometric");
  for (const std::string& format : formats) text += sum_line(results.points, format);
  if (!results.notes.empty()) text += "\nleft out:\n";
  for (const std::string& note : results.notes) text += "  " + note + "\n";
  return text;
}

nlohmann::json tune_json(const TuneResults& results) {
  nlohmann::json points = nlohmann::json::array();
  for (const TunedPoint& p : results.points) {
    points.push_back({{"format", p.format},
                      {"layer", p.shape.name},
                      {"m", p.m},
                      {"n", p.shape.n},
                      {"k", p.shape.k},
                      {"rule", p.rule},
                      {"rule_us", p.rule_us},
                      {"best", p.best},
                      {"best_us", p.best_us},
                      {"right", p.right},
                      {"wrong", p.wrong},
                      {"refused", p.refused}});
  }
  return {{"machine", device_json(results.device)}, {"points", std::move(points)}, {"notes", results.notes}};
}

}  // namespace grille::benchmark
