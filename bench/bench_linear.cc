// Speed of linear layers on the CPU, sparse against dense, all measured in the same run.
//
// Every format has its own copies of a weight, together larger than three last-level caches, so that each
// call reads its weight from memory as a decoding model does. Contenders take turns call by call; the figures
// are medians. "best dense" is the fastest of our dense bfloat16, torch's bfloat16 and torch's float32.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/read_bandwidth.h"
#include "grille/base/parallel.h"
#include "grille/kernels/matmul.h"

namespace {

using grille::DType;
using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t k, n;
};

// Llama-3-8B: q and o, k and v, gate and up, down.
constexpr Shape kShapes[] = {{4096, 4096}, {4096, 1024}, {4096, 14336}, {14336, 4096}};

struct Options {
  std::vector<std::int64_t> tokens = {1, 2, 4, 8, 16, 64, 256};
  int threads = 2;
  double seconds = 0.6;  // per contender and point
  bool json = false;
  std::int64_t only_n = 0, only_k = 0;
};

double seconds_of(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Random bytes that are ordinary numbers in every format: floats of magnitude about 1.
void fill(void* data, std::size_t bytes, DType dtype, std::uint32_t seed) {
  std::uint32_t state = seed * 2654435761u + 1;
  auto* out = static_cast<std::uint8_t*>(data);
  const std::size_t size = grille::dtype_size(dtype);
  for (std::size_t i = 0; i < bytes; i += size) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t r = state >> 8;
    if (dtype == DType::kFloat8E4M3) {
      out[i] = static_cast<std::uint8_t>((r & 0x8fu) | 0x30u);
    } else {
      const std::uint16_t bits = static_cast<std::uint16_t>((r & 0x80ffu) | 0x3f00u);
      out[i] = static_cast<std::uint8_t>(bits);
      out[i + 1] = static_cast<std::uint8_t>(bits >> 8);
    }
  }
}

// Aligned to cache lines, as a loaded model's weights are.
struct OwnWeight {
  at::Tensor values, mask;  // bytes
  std::vector<float> scale;
  grille::kernels::AnyWeight view;
};

OwnWeight make_weight(const Shape& shape, DType dtype, bool two_four, std::uint32_t seed) {
  OwnWeight w;
  const std::int64_t row = two_four ? shape.k / 2 : shape.k;
  w.values = at::empty({shape.n * row * static_cast<std::int64_t>(grille::dtype_size(dtype))}, at::kByte);
  fill(w.values.mutable_data_ptr(), w.values.nbytes(), dtype, seed);
  if (dtype == DType::kFloat8E4M3) w.scale.assign(static_cast<std::size_t>(shape.n), 0.01f);
  const float* scale = w.scale.empty() ? nullptr : w.scale.data();
  if (two_four) {
    constexpr std::uint8_t kPatterns[] = {3, 5, 9, 6, 10, 12};
    std::mt19937 random(seed);
    w.mask = at::empty({shape.n * shape.k / 8}, at::kByte);
    auto* mask = w.mask.mutable_data_ptr<std::uint8_t>();
    for (std::int64_t i = 0; i < w.mask.numel(); ++i) {
      const std::uint32_t r = random();
      mask[i] = static_cast<std::uint8_t>(kPatterns[r % 6] | (kPatterns[(r >> 8) % 6] << 4));
    }
    w.view = grille::kernels::TwoFourWeight{
        {w.values.data_ptr(), mask, dtype, shape.n, shape.k, row, shape.k / 8}, scale};
  } else {
    w.view = grille::kernels::DenseWeight{{w.values.data_ptr(), dtype, shape.n, shape.k, row}, scale};
  }
  return w;
}

struct Contender {
  std::string name;
  double weight_bytes;  // of one copy
  std::function<void(std::int64_t copy)> call;
  std::vector<double> seconds;
};

std::int64_t copies(double bytes) {
  return static_cast<std::int64_t>(3.0 * static_cast<double>(grille::bench::last_level_cache_bytes()) /
                                   bytes) +
         2;
}

class Layer {
 public:
  Layer(const Shape& shape, std::int64_t largest_m) : shape_(shape) {
    x_ = at::randn({largest_m, shape.k}).to(at::kBFloat16);
    x_float_ = x_.to(at::kFloat);
    x_codes_.resize(static_cast<std::size_t>(largest_m * shape.k));
    fill(x_codes_.data(), x_codes_.size(), DType::kFloat8E4M3, 5);
    x_scale_.assign(static_cast<std::size_t>(largest_m), 1.0f);
    y_ = at::empty({largest_m, shape.n}, at::kBFloat16);
    for (auto [dtype, two_four] : {std::pair{DType::kBFloat16, false},
                                   {DType::kFloat8E4M3, false},
                                   {DType::kBFloat16, true},
                                   {DType::kFloat8E4M3, true}}) {
      std::vector<OwnWeight> set;
      const double bytes = weight_bytes(dtype, two_four);
      for (std::int64_t i = 0; i < copies(bytes); ++i) {
        set.push_back(make_weight(shape, dtype, two_four, static_cast<std::uint32_t>(i)));
      }
      own_.push_back(std::move(set));
    }
    const double elements = static_cast<double>(shape.n * shape.k);
    for (std::int64_t i = 0; i < copies(2.0 * elements); ++i) {
      torch_bfloat16_.push_back(at::randn({shape.n, shape.k}).to(at::kBFloat16));
    }
    for (std::int64_t i = 0; i < copies(4.0 * elements); ++i)
      torch_float_.push_back(at::randn({shape.n, shape.k}));
  }

  std::vector<Contender> contenders(std::int64_t m) {
    std::vector<Contender> list;
    const double elements = static_cast<double>(shape_.n * shape_.k);
    const at::Tensor x = x_.narrow(0, 0, m);
    const at::Tensor x_float = x_float_.narrow(0, 0, m);
    list.push_back({"torch-bf16",
                    2.0 * elements,
                    [=, this](std::int64_t copy) { at::linear(x, pick(torch_bfloat16_, copy)); },
                    {}});
    list.push_back({"torch-fp32",
                    4.0 * elements,
                    [=, this](std::int64_t copy) { at::linear(x_float, pick(torch_float_, copy)); },
                    {}});
    const char* names[] = {"dense-bf16", "dense-fp8", "24-bf16", "24-fp8"};
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const bool eight = i % 2 == 1;
      list.push_back({names[i],
                      weight_bytes(eight ? DType::kFloat8E4M3 : DType::kBFloat16, i >= 2),
                      [=, this](std::int64_t copy) { multiply(own_[i], copy, m, eight); },
                      {}});
    }
    return list;
  }

 private:
  double weight_bytes(DType dtype, bool two_four) const {
    const double elements = static_cast<double>(shape_.n * shape_.k);
    const double size = static_cast<double>(grille::dtype_size(dtype));
    return two_four ? elements * (size / 2 + 0.125) : elements * size;
  }

  static const at::Tensor& pick(const std::vector<at::Tensor>& set, std::int64_t copy) {
    return set[static_cast<std::size_t>(copy) % set.size()];
  }

  void multiply(const std::vector<OwnWeight>& set, std::int64_t copy, std::int64_t m, bool eight) {
    grille::kernels::MatmulTokens tokens;
    tokens.x = {x_.data_ptr(), DType::kBFloat16, m, shape_.k, shape_.k};
    if (eight) tokens = {{x_codes_.data(), DType::kFloat8E4M3, m, shape_.k, shape_.k}, x_scale_.data()};
    const grille::kernels::MatmulOutput output = {{y_.data_ptr(), DType::kBFloat16, m, shape_.n, shape_.n}};
    const auto& weight = set[static_cast<std::size_t>(copy) % set.size()].view;
    grille::kernels::matmul_grouped(tokens, {&weight, 1}, {&output, 1});
  }

  Shape shape_;
  at::Tensor x_, x_float_, y_;
  std::vector<std::uint8_t> x_codes_;
  std::vector<float> x_scale_;
  std::vector<std::vector<OwnWeight>> own_;
  std::vector<at::Tensor> torch_bfloat16_, torch_float_;
};

nlohmann::json measure(Layer& layer, const Shape& shape, std::int64_t m, const Options& options,
                       const grille::bench::ReadBandwidth& bandwidth) {
  std::vector<Contender> list = layer.contenders(m);
  const auto deadline =
      Clock::now() + std::chrono::duration<double>(options.seconds * static_cast<double>(list.size()));
  std::vector<double> read;
  for (std::int64_t round = 0; round < 5 || (Clock::now() < deadline && round < 2000); ++round) {
    for (Contender& c : list) {
      const double s = seconds_of([&] { c.call(round); });
      if (round > 0) c.seconds.push_back(s);
    }
    read.push_back(bandwidth.measure());
  }
  double best_dense = 1e9;
  for (const Contender& c : list) {
    if (c.name == "dense-bf16" || c.name.starts_with("torch"))
      best_dense = std::min(best_dense, median(c.seconds));
  }
  nlohmann::json points = nlohmann::json::array();
  for (const Contender& c : list) {
    const double s = median(c.seconds);
    const double gbps = c.weight_bytes / s * 1e-9;
    points.push_back({{"m", m},
                      {"k", shape.k},
                      {"n", shape.n},
                      {"format", c.name},
                      {"us", s * 1e6},
                      {"gflops", 2e-9 * static_cast<double>(m * shape.k * shape.n) / s},
                      {"gbps", gbps},
                      {"of_bandwidth", gbps * 1e9 / median(read)},
                      {"versus_best_dense", best_dense / s}});
  }
  return points;
}

void print(const nlohmann::json& points) {
  for (const auto& p : points) {
    std::printf("%6d %6d %4d %11s %10.1f %8.1f %7.2f %7.0f%% %8.2fx\n", p["k"].get<int>(), p["n"].get<int>(),
                p["m"].get<int>(), p["format"].get<std::string>().c_str(), p["us"].get<double>(),
                p["gflops"].get<double>(), p["gbps"].get<double>(), 100.0 * p["of_bandwidth"].get<double>(),
                p["versus_best_dense"].get<double>());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Linear layers of Llama-3-8B on the CPU: 2:4 and dense, against torch");
  app.add_option("--m", options.tokens, "Token counts")->delimiter(',');
  app.add_option("--threads", options.threads, "Threads of all contenders")->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Measuring time a contender and point");
  app.add_option("--k", options.only_k, "Only shapes with this k");
  app.add_option("--n", options.only_n, "Only shapes with this n");
  app.add_flag("--json", options.json, "One JSON object on stdout");
  CLI11_PARSE(app, argc, argv);
  grille::set_num_threads(options.threads);
  at::set_num_threads(options.threads);

  const grille::bench::ReadBandwidth bandwidth;
  const double read = bandwidth.measure();
  nlohmann::json result = {{"command", std::vector<std::string>(argv, argv + argc)},
                           {"machine", grille::bench::machine()},
                           {"torch", TORCH_VERSION},
                           {"threads", options.threads},
                           {"read_gbps", read * 1e-9},
                           {"points", nlohmann::json::array()}};
  if (!options.json) {
    std::printf("read bandwidth of %d threads: %.1f GB/s\n\n", options.threads, read * 1e-9);
    std::printf("%6s %6s %4s %11s %10s %8s %7s %8s %9s\n", "k", "n", "m", "format", "us", "GFLOP/s", "GB/s",
                "of read", "of dense");
  }
  const std::int64_t largest = *std::max_element(options.tokens.begin(), options.tokens.end());
  for (const Shape& shape : kShapes) {
    if ((options.only_k != 0 && shape.k != options.only_k) ||
        (options.only_n != 0 && shape.n != options.only_n))
      continue;
    Layer layer(shape, largest);
    for (std::int64_t m : options.tokens) {
      const nlohmann::json points = measure(layer, shape, m, options, bandwidth);
      if (!options.json) print(points);
      for (const auto& p : points) result["points"].push_back(p);
    }
  }
  if (options.json) std::printf("%s\n", result.dump(2).c_str());
  return 0;
}
