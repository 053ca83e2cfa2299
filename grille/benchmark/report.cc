#include "grille/benchmark/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "grille/benchmark/summary.h"

namespace grille::benchmark {
namespace {

std::string ratio(double theirs, double ours) {
  return theirs > 0 && ours > 0 ? fmt::format("{:.2f}x", theirs / ours) : "-";
}

// The fastest of the contenders of one library and type at the point of `at`.
double best_of(const std::vector<LinearPoint>& points, Library library, DType dtype, const LinearPoint& at) {
  double best = 0;
  for (const LinearPoint& point : points) {
    const ContenderInfo& info = contender_info(point.contender);
    if (info.library != library || info.dtype != dtype || point.m != at.m || !(point.shape == at.shape))
      continue;
    best = best == 0 ? point.us : std::min(best, point.us);
  }
  return best;
}

std::string share(double limit_us, double us) {
  return limit_us > 0 ? fmt::format("{:.0f}%", 100 * limit_us / us) : "-";
}

std::string point_line(const LinearResults& results, const LinearPoint& p) {
  const DType dtype = contender_info(p.contender).dtype;
  const std::vector<LinearPoint>& all = results.points;
  return fmt::format(
      "{:<24}{:>9.2f}{:>9.2f}{:>8.0f}{:>7.0f}{:>7}{:>7}{:>8}{:>8}{:>8}  {}\n", p.contender, p.us, p.us_warm,
      p.flops() / p.us * 1e-6, p.bytes / p.us * 1e-3, share(byte_limit_us(results.device, p), p.us),
      share(flop_limit_us(results.device, p), p.us), ratio(time_of(all, "cublaslt-bf16", p), p.us),
      ratio(best_of(all, Library::kCublasLt, dtype, p), p.us),
      ratio(best_of(all, Library::kCusparseLt, dtype, p), p.us), p.algorithm);
}

std::string point_lines(const LinearResults& results) {
  std::string text;
  const LinearPoint* before = nullptr;
  for (const LinearPoint& p : results.points) {
    if (before == nullptr || before->m != p.m || !(before->shape == p.shape)) {
      text += fmt::format("\n{:<24}{:>9}{:>9}{:>8}{:>7}{:>7}{:>7}{:>8}{:>8}{:>8}  algorithm\n",
                          fmt::format("m={} {} {}x{}", p.m, p.shape.name, p.shape.k, p.shape.n), "us",
                          "warm us", "TFLOP/s", "GB/s", "bytes", "flops", "/bf16", "/dense", "/cuspLt");
    }
    text += point_line(results, p);
    before = &p;
  }
  return text;
}

std::string sum_lines(const LinearResults& results) {
  const std::vector<LayerSum> sums = layer_sums(results.points);
  if (sums.empty()) return "";
  std::string text = fmt::format("\n{:<26}{:>6}{:>14}{:>12}\n", "all layers", "m", "sum us", "chain us");
  std::string last;
  for (const LayerSum& sum : sums) {
    double chain = 0;
    for (const LinearChain& c : results.chains) {
      if (c.contender == sum.contender && c.m == sum.m) chain = c.us;
    }
    text += fmt::format("{:<26}{:>6}{:>14.2f}{:>12}\n", sum.contender, sum.m, sum.us,
                        chain > 0 ? fmt::format("{:.2f}", chain) : "-");
  }
  text += "\nmean over m <= 64 of the layers' sum:\n";
  for (const LayerSum& sum : sums) {
    const double us = small_batch_us(sums, sum.contender);
    if (sum.contender != last && us > 0) text += fmt::format("{:<26}{:>20.2f}\n", sum.contender, us);
    last = sum.contender;
  }
  return text;
}

std::string comparison_lines(const LinearResults& results) {
  const std::vector<Comparison> comparisons = compare(results.points);
  if (comparisons.empty()) return "";
  std::string text = fmt::format("\n{:<18}{:<26}{:>7}{:>11}{:>11}{:>8}{:>9}\n", "times faster", "than",
                                 "points", "geometric", "arithmetic", "sums", "minimum");
  for (const Comparison& c : comparisons) {
    text += fmt::format("{:<18}{:<26}{:>7}{:>11.3f}{:>11.3f}{:>8.3f}{:>9.3f}  at {}\n", c.contender,
                        c.baseline, c.points, c.geometric, c.arithmetic, c.sums, c.minimum, c.minimum_at);
  }
  return text;
}

nlohmann::json point_json(const LinearResults& results, const LinearPoint& p) {
  const double byte_us = byte_limit_us(results.device, p);
  const double flop_us = flop_limit_us(results.device, p);
  nlohmann::json versus = nlohmann::json::object();
  for (const LinearPoint& other : with_best_fp8(results.points)) {
    if (other.contender != p.contender && other.m == p.m && other.shape == p.shape)
      versus[other.contender] = other.us / p.us;
  }
  return {{"m", p.m},
          {"k", p.shape.k},
          {"n", p.shape.n},
          {"layer", p.shape.name},
          {"format", p.contender},
          {"us", p.us},
          {"us_warm", p.us_warm},
          {"tflops", p.flops() / p.us * 1e-6},
          {"gbps", p.bytes / p.us * 1e-3},
          {"bytes", p.bytes},
          {"weight_bytes", p.weight_bytes},
          {"limit_us", std::max(byte_us, flop_us)},
          {"of_byte_limit", byte_us / p.us},
          {"of_flop_limit", flop_us > 0 ? nlohmann::json(flop_us / p.us) : nlohmann::json()},
          {"algorithm", p.algorithm},
          {"candidates", p.candidates},
          {"wrong_candidates", p.wrong},
          {"refused_candidates", p.refused},
          {"error_of_tolerance", p.error},
          {"versus", std::move(versus)}};
}

}  // namespace

std::string device_lines(const DeviceRecord& d) {
  const auto known = [](const std::string& version) { return version.empty() ? "not used" : version; };
  return fmt::format(
      "{}, sm_{}, {} multiprocessors, {} MB L2; driver {}, CUDA {}, cuBLASLt {}, cuSPARSELt {}\n"
      "read {:.2f} TB/s, copy {:.2f} TB/s (measured); SM clock {:.0f} MHz under load, {:.0f} at most; "
      "power limit {:.0f} W\n",
      d.name, d.compute_capability, d.multiprocessors, d.l2_bytes >> 20, d.driver, d.cuda_runtime,
      known(d.cublaslt), known(d.cusparselt), d.read_bytes_per_second * 1e-12,
      d.copy_bytes_per_second * 1e-12, d.sm_mhz, d.sm_mhz_max, d.power_limit_watts);
}

nlohmann::json device_json(const DeviceRecord& d) {
  return {{"name", d.name},
          {"compute_capability", d.compute_capability},
          {"multiprocessors", d.multiprocessors},
          {"l2_bytes", d.l2_bytes},
          {"read_gbps", d.read_bytes_per_second * 1e-9},
          {"copy_gbps", d.copy_bytes_per_second * 1e-9},
          {"driver", d.driver},
          {"cuda", d.cuda_runtime},
          {"cublaslt", d.cublaslt},
          {"cusparselt", d.cusparselt},
          {"sm_mhz", d.sm_mhz},
          {"sm_mhz_max", d.sm_mhz_max},
          {"power_limit_watts", d.power_limit_watts}};
}

std::string linear_table(const LinearResults& results) {
  std::string text =
      device_lines(results.device) + point_lines(results) + sum_lines(results) + comparison_lines(results);
  if (!results.notes.empty()) text += "\nleft out:\n";
  for (const std::string& note : results.notes) text += "  " + note + "\n";
  return text;
}

nlohmann::json linear_json(const LinearResults& results) {
  nlohmann::json points = nlohmann::json::array(), chains = nlohmann::json::array();
  nlohmann::json sums = nlohmann::json::array(), summary = nlohmann::json::object();
  for (const LinearPoint& p : results.points) points.push_back(point_json(results, p));
  for (const LinearChain& c : results.chains)
    chains.push_back({{"format", c.contender}, {"m", c.m}, {"us", c.us}});
  const std::vector<LayerSum> layers = layer_sums(results.points);
  for (const LayerSum& s : layers) sums.push_back({{"format", s.contender}, {"m", s.m}, {"us", s.us}});
  for (const Comparison& c : compare(results.points)) {
    summary[c.contender][c.baseline] = {{"points", c.points},       {"arithmetic", c.arithmetic},
                                        {"geometric", c.geometric}, {"sums", c.sums},
                                        {"minimum", c.minimum},     {"minimum_at", c.minimum_at}};
  }
  nlohmann::json small = nlohmann::json::object();
  for (const LayerSum& s : layers) {
    const double us = small_batch_us(layers, s.contender);
    if (us > 0) small[s.contender] = us;
  }
  return {{"machine", device_json(results.device)},
          {"points", std::move(points)},
          {"chains", std::move(chains)},
          {"layer_sums", std::move(sums)},
          {"mean_layer_sum_us_m_up_to_64", std::move(small)},
          {"summary", std::move(summary)},
          {"notes", results.notes}};
}

}  // namespace grille::benchmark
