#include "grille/benchmark/cuda/cusparselt.h"

#ifdef GRILLE_HAS_CUSPARSELT

#include <algorithm>

#include <cusparseLt.h>
#include <fmt/format.h>

#include "grille/benchmark/cuda/library.h"

namespace grille::benchmark {

class CusparseLt {
 public:
  CusparseLt() {
    const cusparseStatus_t status = init(&handle);
    check(status == CUSPARSE_STATUS_SUCCESS, ErrorCode::kUnsupported, "cuSPARSELt: this device: {}",
          error_name(status));
    workspace = DeviceMemory(kWorkspaceBytes);
  }

  void check_status(cusparseStatus_t status, const char* call) const {
    check(status == CUSPARSE_STATUS_SUCCESS, ErrorCode::kUnsupported, "cuSPARSELt: {}: {}", call,
          error_name(status));
  }

  static constexpr std::size_t kWorkspaceBytes = std::size_t{256}
                                                 << 20;  // a plan that wants more is left out

 private:
  SharedLibrary library_{"cuSPARSELt", "libcusparseLt.so.0", "../../cusparselt/lib"};
  template <typename F>
  F get(const char* name) const {
    return library_.function<F>(name);
  }

 public:
#define GRILLE_CUSPARSELT(member, name) decltype(&::name) member = get<decltype(&::name)>(#name)
  GRILLE_CUSPARSELT(init, cusparseLtInit);
  GRILLE_CUSPARSELT(version, cusparseLtGetVersion);
  GRILLE_CUSPARSELT(error_name, cusparseLtGetErrorName);
  GRILLE_CUSPARSELT(dense_init, cusparseLtDenseDescriptorInit);
  GRILLE_CUSPARSELT(structured_init, cusparseLtStructuredDescriptorInit);
  GRILLE_CUSPARSELT(descriptor_destroy, cusparseLtMatDescriptorDestroy);
  GRILLE_CUSPARSELT(matmul_init, cusparseLtMatmulDescriptorInit);
  GRILLE_CUSPARSELT(selection_init, cusparseLtMatmulAlgSelectionInit);
  GRILLE_CUSPARSELT(selection_destroy, cusparseLtMatmulAlgSelectionDestroy);
  GRILLE_CUSPARSELT(selection_set, cusparseLtMatmulAlgSetAttribute);
  GRILLE_CUSPARSELT(selection_get, cusparseLtMatmulAlgGetAttribute);
  GRILLE_CUSPARSELT(plan_init, cusparseLtMatmulPlanInit);
  GRILLE_CUSPARSELT(plan_destroy, cusparseLtMatmulPlanDestroy);
  GRILLE_CUSPARSELT(plan_workspace, cusparseLtMatmulGetWorkspace);
  GRILLE_CUSPARSELT(compressed_size, cusparseLtSpMMACompressedSize2);
  GRILLE_CUSPARSELT(compress, cusparseLtSpMMACompress2);
  GRILLE_CUSPARSELT(matmul, cusparseLtMatmul);
#undef GRILLE_CUSPARSELT
  cusparseLtHandle_t handle{};
  DeviceMemory workspace;
};

namespace {

cudaDataType cuda_type(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16: return CUDA_R_16BF;
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kFloat8E4M3: return CUDA_R_8F_E4M3;
    case DType::kInt8: return CUDA_R_8I;
    default: fail(ErrorCode::kInternal, "cuSPARSELt: no type for {}", dtype_name(dtype));
  }
}

DType y_type(DType dtype) { return dtype == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16; }

constexpr std::uint32_t kAlignment = 16;  // bytes

// With fp16 on an H200, cuSPARSELt 0.8.0 has algorithms that it accepts and that then execute an illegal
// instruction or never end, either of which takes the CUDA context and every contender with it. Which ones
// cannot be asked of the library, so fp16 runs what the library chooses by itself.
bool searches_algorithms(DType dtype) { return dtype != DType::kFloat16; }

constexpr int kOwnChoice = -1;  // in place of an algorithm id: what the library takes if none is set

// A way of splitting k; `parts` 1: the library's own default.
struct Split {
  int mode = CUSPARSELT_INVALID_MODE;
  int parts = 1;
};

std::vector<Split> splits() {
  std::vector<Split> list = {{}};
  for (const int mode :
       {CUSPARSELT_SPLIT_K_MODE_ONE_KERNEL, CUSPARSELT_SPLIT_K_MODE_TWO_KERNELS, CUSPARSELT_SPLITK}) {
    for (const int parts : {2, 4, 8}) list.push_back({mode, parts});
  }
  for (const int mode : {CUSPARSELT_HEURISTIC, CUSPARSELT_DATAPARALLEL, CUSPARSELT_STREAMK})
    list.push_back({mode, 1});
  return list;
}

// W [n, k] is the structured matrix A, row-major; x [m, k] is B, row-major and transposed; y [m, n] row-major
// is C = D of n x m in column order.
struct Problem {
  Problem(std::shared_ptr<CusparseLt> library, const ConstMatrixView& x, const LayerShape& shape, DType y)
      : lt(std::move(library)) {
    const cudaDataType type = cuda_type(x.dtype);
    lt->check_status(lt->structured_init(&lt->handle, &weight, shape.n, shape.k, shape.k, kAlignment, type,
                                         CUSPARSE_ORDER_ROW, CUSPARSELT_SPARSITY_50_PERCENT),
                     "structured descriptor");
    lt->check_status(
        lt->dense_init(&lt->handle, &tokens, x.rows, x.cols, x.cols, kAlignment, type, CUSPARSE_ORDER_ROW),
        "dense descriptor of x");
    lt->check_status(lt->dense_init(&lt->handle, &output, shape.n, x.rows, shape.n, kAlignment, cuda_type(y),
                                    CUSPARSE_ORDER_COL),
                     "dense descriptor of y");
    lt->check_status(lt->matmul_init(&lt->handle, &matmul, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                     CUSPARSE_OPERATION_TRANSPOSE, &weight, &tokens, &output, &output,
                                     x.dtype == DType::kInt8 ? CUSPARSE_COMPUTE_32I : CUSPARSE_COMPUTE_32F),
                     "matmul descriptor");
  }
  ~Problem() {
    for (const auto* descriptor : {&weight, &tokens, &output}) lt->descriptor_destroy(descriptor);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  std::shared_ptr<CusparseLt> lt;
  cusparseLtMatDescriptor_t weight{}, tokens{}, output{};
  cusparseLtMatmulDescriptor_t matmul{};
};

// An algorithm of a problem; made only if the library accepts it.
class Candidate {
 public:
  static std::unique_ptr<Candidate> make(Problem& problem, int id, const Split& split) {
    std::unique_ptr<Candidate> c(new Candidate(problem));
    return c->init(id, split) ? std::move(c) : nullptr;
  }
  ~Candidate() {
    if (planned_) lt_.plan_destroy(&plan_);
    if (selected_) lt_.selection_destroy(&selection_);
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  bool run(float alpha, const void* weight, const void* x, void* y, cudaStream_t stream) {
    const float beta = 0;
    return lt_.matmul(&lt_.handle, &plan_, &alpha, weight, x, &beta, y, y, lt_.workspace.data(), &stream,
                      1) == CUSPARSE_STATUS_SUCCESS;
  }

 private:
  explicit Candidate(Problem& problem) : lt_(*problem.lt), problem_(problem) {}

  bool set(cusparseLtMatmulAlgAttribute_t name, int value) {
    return lt_.selection_set(&lt_.handle, &selection_, name, &value, sizeof(value)) ==
           CUSPARSE_STATUS_SUCCESS;
  }

  bool init(int id, const Split& split) {
    selected_ = lt_.selection_init(&lt_.handle, &selection_, &problem_.matmul,
                                   CUSPARSELT_MATMUL_ALG_DEFAULT) == CUSPARSE_STATUS_SUCCESS;
    if (!selected_ || (id != kOwnChoice && !set(CUSPARSELT_MATMUL_ALG_CONFIG_ID, id))) return false;
    if (split.parts > 1 && !set(CUSPARSELT_MATMUL_SPLIT_K, split.parts)) return false;
    if (split.mode != CUSPARSELT_INVALID_MODE && !set(CUSPARSELT_MATMUL_SPLIT_K_MODE, split.mode))
      return false;
    planned_ = lt_.plan_init(&lt_.handle, &plan_, &problem_.matmul, &selection_) == CUSPARSE_STATUS_SUCCESS;
    std::size_t bytes = 0;
    return planned_ && lt_.plan_workspace(&lt_.handle, &plan_, &bytes) == CUSPARSE_STATUS_SUCCESS &&
           bytes <= CusparseLt::kWorkspaceBytes;
  }

  CusparseLt& lt_;
  Problem& problem_;
  cusparseLtMatmulAlgSelection_t selection_{};
  cusparseLtMatmulPlan_t plan_{};
  bool selected_ = false, planned_ = false;
};

struct Plan {
  std::unique_ptr<Problem> problem;
  std::vector<std::unique_ptr<Candidate>> candidates;
  std::vector<std::string> names;
  int refused = 0;
};

class CusparseLtContender final : public Contender {
 public:
  CusparseLtContender(std::shared_ptr<CusparseLt> library, const ContenderInfo& info, LayerData& data)
      : Contender(info), lt_(std::move(library)), data_(data) {
    Problem problem(lt_, data_.x(info.dtype, padded(1)), data_.shape(), y_type(info.dtype));
    std::size_t bytes = 0, buffer_bytes = 0;
    lt_->check_status(lt_->compressed_size(&lt_->handle, &problem.weight, &bytes, &buffer_bytes),
                      "compressed size");
    compressed_bytes_ = bytes;
    const DeviceMemory buffer(std::max<std::size_t>(buffer_bytes, 16));
    const int copies = data_.copies_for(static_cast<double>(bytes));
    for (int copy = 0; copy < copies; ++copy) {
      weights_.emplace_back(bytes);
      lt_->check_status(lt_->compress(&lt_->handle, &problem.weight, 1, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                      data_.weight(info.dtype, true, copy).data, weights_.back().data(),
                                      buffer.data(), data_.stream()),
                        "compress");
    }
    check(cudaStreamSynchronize(data_.stream()) == cudaSuccess, ErrorCode::kDevice,
          "cuSPARSELt: compression failed on the device");
  }

  double weight_bytes() const override { return static_cast<double>(compressed_bytes_); }
  int copies() const override { return static_cast<int>(weights_.size()); }

  const std::vector<std::string>& prepare(std::int64_t m) override {
    Plan& plan = plans_[m];
    if (!plan.problem) fill(plan, m);
    return plan.names;
  }

  int refused(std::int64_t m) const override { return plans_.at(m).refused; }

  std::string limits() const override {
    return searches_algorithms(info().dtype) ? ""
                                             : "the library's default algorithm alone was measured: with "
                                               "fp16 others that it offers end the "
                                               "run with an illegal instruction";
  }

  bool run(std::int64_t m, std::size_t candidate, int copy, cudaStream_t stream) override {
    const Product p = product(m, copy);
    const float alpha = info().scaling == Scaling::kTensor ? data_.tensor_scale() : 1.0f;
    return plans_.at(m).candidates[candidate]->run(alpha, weights_[static_cast<std::size_t>(copy)].data(),
                                                   p.x.data, p.y.data, stream);
  }

  Product product(std::int64_t m, int copy) override {
    return data_.product(info(), m, copy, y_type(info().dtype));
  }

 private:
  std::int64_t padded(std::int64_t m) const {
    const std::int64_t step = dtype_size(info().dtype) == 1 ? 16 : 8;
    return (m + step - 1) / step * step;
  }

  void fill(Plan& plan, std::int64_t m) {
    plan.problem =
        std::make_unique<Problem>(lt_, data_.x(info().dtype, padded(m)), data_.shape(), y_type(info().dtype));
    if (!searches_algorithms(info().dtype)) return add_own_choice(plan);
    std::vector<Split> accepted;
    const int ids = algorithms(*plan.problem);
    for (const Split& split : splits_) {
      const std::size_t before = plan.candidates.size();
      for (int id = 0; id < ids; ++id) {
        auto candidate = Candidate::make(*plan.problem, id, split);
        if (!candidate) {
          ++plan.refused;
          continue;
        }
        plan.candidates.push_back(std::move(candidate));
        plan.names.push_back(fmt::format("id {}", id));
        if (split.mode != CUSPARSELT_INVALID_MODE)
          plan.names.back() += fmt::format(" split-k {} mode {}", split.parts, split.mode);
      }
      if (plan.candidates.size() > before) accepted.push_back(split);
    }
    plan.refused += ids * static_cast<int>(splits().size() - splits_.size());
    splits_ = std::move(accepted);
  }

  static void add_own_choice(Plan& plan) {
    auto candidate = Candidate::make(*plan.problem, kOwnChoice, Split{});
    if (!candidate) {
      ++plan.refused;
      return;
    }
    plan.candidates.push_back(std::move(candidate));
    plan.names.push_back("default");
  }

  int algorithms(Problem& problem) const {
    cusparseLtMatmulAlgSelection_t selection{};
    lt_->check_status(
        lt_->selection_init(&lt_->handle, &selection, &problem.matmul, CUSPARSELT_MATMUL_ALG_DEFAULT),
        "algorithm selection");
    int most = 0;
    lt_->check_status(lt_->selection_get(&lt_->handle, &selection, CUSPARSELT_MATMUL_ALG_CONFIG_MAX_ID, &most,
                                         sizeof(most)),
                      "number of algorithms");
    lt_->selection_destroy(&selection);
    return most;
  }

  std::shared_ptr<CusparseLt> lt_;
  LayerData& data_;
  std::size_t compressed_bytes_ = 0;
  std::vector<DeviceMemory> weights_;
  // Those that some algorithm took so far: what all of them refuse at one m they refuse at every m, and
  // refusing takes longer than running.
  std::vector<Split> splits_ = splits();
  std::map<std::int64_t, Plan> plans_;
};

}  // namespace

std::shared_ptr<CusparseLt> load_cusparselt() { return std::make_shared<CusparseLt>(); }

std::string version_of(const CusparseLt& library) {
  int v = 0;  // 800: 0.8.0
  library.check_status(library.version(&library.handle, &v), "cusparseLtGetVersion");
  return fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

std::unique_ptr<Contender> make_cusparselt(const std::shared_ptr<CusparseLt>& library,
                                           const ContenderInfo& info, LayerData& data) {
  return std::make_unique<CusparseLtContender>(library, info, data);
}

}  // namespace grille::benchmark

#endif
