#include "grille/benchmark/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/benchmark/summary.h"

namespace grille::benchmark {
namespace {

constexpr double kWidth = 960, kHeight = 600;
constexpr double kLeft = 70, kRight = 250, kTop = 50, kBottom = 60;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

double intensity(const LinearPoint& p) { return p.flops() / p.bytes; }
double tflops(const LinearPoint& p) { return p.flops() / p.us * 1e-6; }

// Whole decades around all points and roofs.
struct Axes {
  double x_low, x_high, y_low, y_high;

  double x(double value) const {
    return kLeft + (kWidth - kLeft - kRight) * std::log(value / x_low) / std::log(x_high / x_low);
  }
  double y(double value) const {
    return kHeight - kBottom -
           (kHeight - kTop - kBottom) * std::log(value / y_low) / std::log(y_high / y_low);
  }
};

double decade_below(double value) { return std::pow(10.0, std::floor(std::log10(value))); }

struct Roof {
  std::string label;
  double tflops;
};

// Equal limits (8-bit dense and 16-bit 2:4) share a roof.
std::vector<Roof> roofs(const LinearResults& results) {
  std::map<double, std::set<std::string>> labels;
  for (const std::string& name : contenders_of(results.points)) {
    const ContenderInfo& info = contender_info(name);
    const double limit = flop_limit(results.device, info.dtype, info.sparse);
    if (limit > 0)
      labels[limit * 1e-12].insert(
          fmt::format("{}-bit {}", 8 * dtype_size(info.dtype), info.sparse ? "2:4" : "dense"));
  }
  std::vector<Roof> list;
  for (const auto& [limit, names] : labels)
    list.push_back({fmt::format("{} {:.0f}", fmt::join(names, ", "), limit), limit});
  return list;
}

Axes axes(const LinearResults& results, const std::vector<Roof>& roof_list) {
  double x_min = 1e30, x_max = 0, y_min = 1e30, y_max = 0;
  for (const LinearPoint& p : results.points) {
    x_min = std::min(x_min, intensity(p)), x_max = std::max(x_max, intensity(p));
    y_min = std::min(y_min, tflops(p)), y_max = std::max(y_max, tflops(p));
  }
  for (const Roof& roof : roof_list) y_max = std::max(y_max, roof.tflops);
  return {decade_below(x_min), 10 * decade_below(x_max), decade_below(y_min), 10 * decade_below(y_max)};
}

std::string text(double x, double y, const char* anchor, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(content));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                     style);
}

std::string grid(const Axes& a) {
  constexpr const char* kThin = "stroke=\"#ddd\"";
  std::string svg;
  for (double v = a.x_low; v <= a.x_high * 1.001; v *= 10) {
    svg += line(a.x(v), kTop, a.x(v), kHeight - kBottom, kThin);
    svg += text(a.x(v), kHeight - kBottom + 18, "middle", fmt::format("{:g}", v));
  }
  for (double v = a.y_low; v <= a.y_high * 1.001; v *= 10) {
    svg += line(kLeft, a.y(v), kWidth - kRight, a.y(v), kThin);
    svg += text(kLeft - 8, a.y(v) + 4, "end", fmt::format("{:g}", v));
  }
  svg += text((kLeft + kWidth - kRight) / 2, kHeight - 18, "middle", "flop a byte");
  svg += text(kLeft, kTop - 10, "middle", "TFLOP/s");
  return svg;
}

std::string roof_lines(const Axes& a, const std::vector<Roof>& list, double tb_per_second) {
  constexpr const char* kRoof = "stroke=\"#444\" stroke-dasharray=\"5 3\"";
  double highest = list.empty() ? a.y_high : 0;  // where the slope ends
  std::string svg;
  for (const Roof& roof : list) {
    highest = std::max(highest, roof.tflops);
    const double ridge = std::clamp(roof.tflops / tb_per_second, a.x_low, a.x_high);
    svg += line(a.x(ridge), a.y(roof.tflops), a.x(a.x_high), a.y(roof.tflops), kRoof);
    svg += text(a.x(a.x_high) - 4, a.y(roof.tflops) - 4, "end", roof.label);
  }
  const double from = std::max(a.x_low, a.y_low / tb_per_second);
  const double to = std::min(a.x_high, highest / tb_per_second);
  if (from < to) svg += line(a.x(from), a.y(from * tb_per_second), a.x(to), a.y(to * tb_per_second), kRoof);
  svg += text(kLeft + 8, kTop + 14, "start", fmt::format("slope: {:.2f} TB/s, measured", tb_per_second));
  return svg;
}

std::string marks(const LinearResults& results, const Axes& a) {
  constexpr std::array<const char*, 8> kColours = {"#d62728", "#1f77b4", "#2ca02c", "#9467bd",
                                                   "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"};
  std::string svg;
  const std::vector<std::string> names = contenders_of(results.points);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    // A second round of the colours is told apart by hollow marks, as dense contenders are by squares.
    const std::string style = i < kColours.size() ? fmt::format("fill=\"{}\"", colour)
                                                  : fmt::format("fill=\"none\" stroke=\"{}\"", colour);
    const bool sparse = contender_info(names[i]).sparse;
    const auto mark = [&](double x, double y, const std::string& title) {
      const std::string inside = "<title>" + escaped(title) + "</title>";
      return sparse ? fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" {}>{}</circle>\n", x, y, style,
                                  inside)
                    : fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\" {}>{}</rect>\n",
                                  x - 3.5, y - 3.5, style, inside);
    };
    for (const LinearPoint& p : results.points) {
      if (p.contender != names[i]) continue;
      svg += mark(a.x(intensity(p)), a.y(tflops(p)),
                  fmt::format("{} m={} {} {}x{}: {:.2f} us, {:.0f} TFLOP/s, {:.0f} GB/s", p.contender, p.m,
                              p.shape.name, p.shape.k, p.shape.n, p.us, tflops(p), p.bytes / p.us * 1e-3));
    }
    const double y = kTop + 12 + 20 * static_cast<double>(i);
    svg += mark(kWidth - kRight + 22, y, names[i]) + text(kWidth - kRight + 34, y + 4, "start", names[i]);
  }
  return svg;
}

}  // namespace

std::string roofline_svg(const LinearResults& results) {
  check(!results.points.empty(), ErrorCode::kInvalidArgument, "roofline: no point was measured");
  const std::vector<Roof> list = roofs(results);
  const Axes a = axes(results, list);
  const DeviceRecord& device = results.device;
  const double tb = std::max(device.read_bytes_per_second, device.copy_bytes_per_second) * 1e-12;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kWidth, kHeight) +
         text(kWidth / 2, 22, "middle", "Linear layers on " + device.name) + grid(a) +
         roof_lines(a, list, tb) + marks(results, a) + "</svg>\n";
}

}  // namespace grille::benchmark
