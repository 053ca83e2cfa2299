#include "grille/benchmark/cuda/two_four_sm90.h"

#include <algorithm>

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/matmul_24_sm90.h"
#include "grille/kernels/matmul_24_sm90_candidates.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/pack_24_sm90.h"

namespace grille::benchmark {
namespace {

using kernels::check_cuda;

// Which plans are candidates.
enum class Try : std::uint8_t { kOwnChoice, kAll };

class TwoFourSm90Contender final : public TwoFourPlans {
 public:
  TwoFourSm90Contender(const ContenderInfo& info, LayerData& data, int device, Try which,
                       const kernels::Matmul24PlanTable* table)
      : TwoFourPlans(info),
        data_(data),
        stream_{{DeviceType::kCuda, device}, data.stream()},
        layout_{data.shape().n, data.shape().k, static_cast<int>(dtype_size(info.dtype))},
        try_(which),
        table_(table) {
    caps_ = kernels::sm90_caps(stream_);
    const int copies = data_.copies_for(weight_bytes());
    for (int copy = 0; copy < copies; ++copy) weights_.push_back(packed(copy));
  }

  double weight_bytes() const override {
    const double scales = info().scaling == Scaling::kRow ? 4.0 * static_cast<double>(layout_.rows) : 0;
    return static_cast<double>(layout_.bytes()) + scales;
  }
  int copies() const override { return static_cast<int>(weights_.size()); }

  const std::vector<std::string>& prepare(std::int64_t m) override {
    Ready& ready = ready_[m];
    if (!ready.names.empty()) return ready.names;
    const kernels::Matmul24Sm90Problem problem = problem_of(m);
    if (try_ == Try::kAll) {
      ready.plans = kernels::candidate_plans_24_sm90(problem, caps_);
    } else {
      ready.plans = {kernels::plan_matmul_24_sm90(problem, caps_, table_)};
    }
    std::size_t bytes = 0;
    for (const kernels::Matmul24Sm90Plan& plan : ready.plans) {
      bytes = std::max(bytes, kernels::matmul_24_sm90_workspace(problem, plan));
      ready.names.push_back(to_string(plan));
    }
    if (try_ == Try::kOwnChoice && table().find(problem, caps_) != nullptr)
      ready.names.front() += ", measured";
    ready.workspace = DeviceMemory(bytes);
    check_cuda(cudaMemset(ready.workspace.data(), 0, kernels::kMatmul24CounterBytes), "cudaMemset");
    return ready.names;
  }

  const std::vector<kernels::Matmul24Sm90Plan>& plans(std::int64_t m) const override {
    return ready_.at(m).plans;
  }

  bool run(std::int64_t m, std::size_t candidate, int copy, cudaStream_t stream) override {
    const Product p = product(m, copy);
    const Ready& ready = ready_.at(m);
    kernels::Matmul24Sm90Args args;
    args.x = p.x;
    args.x_scale = p.x_scale.data;
    args.weight = {weights_[static_cast<std::size_t>(copy)].data(), info().dtype, layout_.rows, layout_.cols};
    args.weight_scale = p.weight_scale.data;
    args.y = p.y;
    args.workspace = ready.workspace.data();
    args.workspace_bytes = ready.workspace.bytes();
    args.fast_accumulation = fast_accumulation();
    args.plans = table_;
    args.overlap_previous = true;
    args.stream = {stream_.device, stream};
    if (try_ == Try::kAll) {
      kernels::matmul_24_sm90(args, ready.plans[candidate]);
    } else {
      kernels::matmul_24_sm90(args);  // chooses as prepare() did
    }
    return true;
  }

  Product product(std::int64_t m, int copy) override {
    const bool fp16 = info().dtype == DType::kFloat16;
    return data_.product(info(), m, copy, fp16 ? DType::kFloat16 : DType::kBFloat16);
  }

 private:
  struct Ready {
    DeviceMemory workspace;
    std::vector<kernels::Matmul24Sm90Plan> plans;
    std::vector<std::string> names;
  };

  const kernels::Matmul24PlanTable& table() const {
    return table_ != nullptr ? *table_ : kernels::built_in_24_plans();
  }

  kernels::Matmul24Sm90Problem problem_of(std::int64_t m) const {
    return {.m = m,
            .n = layout_.rows,
            .k = layout_.cols,
            .dtype = info().dtype,
            .fast_accumulation = fast_accumulation()};
  }

  // What cuBLASLt's FP8 is measured with.
  bool fast_accumulation() const { return info().dtype == DType::kFloat8E4M3; }

  // Dense -> canonical -> slabs, on the device.
  DeviceMemory packed(int copy) {
    const ConstMatrixView dense = data_.weight(info().dtype, true, copy);
    const auto elements = static_cast<std::size_t>(dense.rows * dense.cols);
    const DeviceMemory values(elements / 2 * dtype_size(dense.dtype));
    const DeviceMemory metadata(static_cast<std::size_t>(dense.rows * ((dense.cols + 7) / 8)));
    const DeviceMemory violation(sizeof(kernels::TwoFourViolation));
    auto* found = violation.data<kernels::TwoFourViolation>();
    kernels::pack_24({.dense = dense,
                      .packed = {values.data(), metadata.data<std::uint8_t>(), dense.cols / 2,
                                 (dense.cols + 7) / 8, kernels::TwoFourPositions::kMetadata},
                      .violation = found,
                      .stream = stream_});
    kernels::check_packed(read(found), "bench linear");
    DeviceMemory slabs(static_cast<std::size_t>(layout_.bytes()));
    kernels::pack_24_sm90({.weight = formats::TwoFourView{values.data(), metadata.data<std::uint8_t>(),
                                                          dense.dtype, dense.rows, dense.cols},
                           .slabs = slabs.data(),
                           .violation = found,
                           .stream = stream_});
    kernels::check_packed_sm90(read(found), "bench linear");
    return slabs;
  }

  kernels::TwoFourViolation read(const kernels::TwoFourViolation* on_device) const {
    kernels::TwoFourViolation violation;
    check_cuda(
        cudaMemcpyAsync(&violation, on_device, sizeof(violation), cudaMemcpyDeviceToHost, data_.stream()),
        "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(data_.stream()), "pack_24");
    return violation;
  }

  LayerData& data_;
  Stream stream_;
  formats::TwoFourSm90Layout layout_;
  Try try_;
  const kernels::Matmul24PlanTable* table_;
  kernels::Sm90Caps caps_;
  std::vector<DeviceMemory> weights_;
  std::map<std::int64_t, Ready> ready_;
};

}  // namespace

std::unique_ptr<Contender> make_two_four_sm90(const ContenderInfo& info, LayerData& data, int device,
                                              const kernels::Matmul24PlanTable* plans) {
  return std::make_unique<TwoFourSm90Contender>(info, data, device, Try::kOwnChoice, plans);
}

std::unique_ptr<TwoFourPlans> make_two_four_plans(const ContenderInfo& info, LayerData& data, int device) {
  return std::make_unique<TwoFourSm90Contender>(info, data, device, Try::kAll, nullptr);
}

}  // namespace grille::benchmark
