#include "grille/benchmark/cuda/cublaslt.h"

#ifdef GRILLE_HAS_CUBLASLT

#include <cublasLt.h>
#include <fmt/format.h>

#include "grille/benchmark/cuda/library.h"

namespace grille::benchmark {

class CublasLt {
 public:
  CublasLt() {
    check_status(create(&handle), "cublasLtCreate");
    workspace = DeviceMemory(kWorkspaceBytes);
  }
  // `handle` lives as long as the process, as the library does: its owner may be destroyed after the CUDA
  // runtime has shut down.

  void check_status(cublasStatus_t status, const char* call) const {
    check(status == CUBLAS_STATUS_SUCCESS, ErrorCode::kDevice, "cuBLASLt: {}: {}", call, status_name(status));
  }

  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

 private:
  SharedLibrary library_{"cuBLASLt", "libcublasLt.so.13", "."};
  template <typename F>
  F get(const char* name) const {
    return library_.function<F>(name);
  }

 public:
#define GRILLE_CUBLASLT(member, name) decltype(&::name) member = get<decltype(&::name)>(#name)
  GRILLE_CUBLASLT(create, cublasLtCreate);
  GRILLE_CUBLASLT(version, cublasLtGetVersion);
  GRILLE_CUBLASLT(status_name, cublasLtGetStatusName);
  GRILLE_CUBLASLT(desc_create, cublasLtMatmulDescCreate);
  GRILLE_CUBLASLT(desc_destroy, cublasLtMatmulDescDestroy);
  GRILLE_CUBLASLT(desc_set, cublasLtMatmulDescSetAttribute);
  GRILLE_CUBLASLT(layout_create, cublasLtMatrixLayoutCreate);
  GRILLE_CUBLASLT(layout_destroy, cublasLtMatrixLayoutDestroy);
  GRILLE_CUBLASLT(preference_create, cublasLtMatmulPreferenceCreate);
  GRILLE_CUBLASLT(preference_destroy, cublasLtMatmulPreferenceDestroy);
  GRILLE_CUBLASLT(preference_set, cublasLtMatmulPreferenceSetAttribute);
  GRILLE_CUBLASLT(heuristic, cublasLtMatmulAlgoGetHeuristic);
  GRILLE_CUBLASLT(algo_get, cublasLtMatmulAlgoConfigGetAttribute);
  GRILLE_CUBLASLT(matmul, cublasLtMatmul);
#undef GRILLE_CUBLASLT
  cublasLtHandle_t handle = nullptr;
  DeviceMemory workspace;
};

namespace {

cudaDataType cuda_type(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16: return CUDA_R_16BF;
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kFloat8E4M3: return CUDA_R_8F_E4M3;
    case DType::kInt8: return CUDA_R_8I;
    case DType::kInt32: return CUDA_R_32I;
    default: fail(ErrorCode::kInternal, "cuBLASLt: no type for {}", dtype_name(dtype));
  }
}

DType y_type(DType dtype) {
  if (dtype == DType::kInt8) return DType::kInt32;
  return dtype == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
}

// One problem: row-major x [m, k], W [n, k], y [m, n] are column-major k x m, k x n, n x m, so y = W^T x.
class Plan {
 public:
  Plan(std::shared_ptr<CublasLt> library, const Product& product) : lt_(std::move(library)) {
    const bool integer = product.x.dtype == DType::kInt8;
    lt_->check_status(lt_->desc_create(&desc_, integer ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                       integer ? CUDA_R_32I : CUDA_R_32F),
                      "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (product.x.dtype == DType::kFloat8E4M3) set_fp8(product);
    weight_ = layout(product.weight.dtype, product.weight.cols, product.weight.rows);
    x_ = layout(product.x.dtype, product.x.cols, product.x.rows);
    y_ = layout(product.y.dtype, product.y.cols, product.y.rows);
    find_algorithms();
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t l : {weight_, x_, y_}) lt_->layout_destroy(l);
    lt_->desc_destroy(desc_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const std::vector<std::string>& names() const { return names_; }

  bool run(const Product& p, std::size_t candidate, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    const std::int32_t int_one = 1, int_zero = 0;
    const bool integer = p.x.dtype == DType::kInt8;
    const void* alpha = integer ? static_cast<const void*>(&int_one) : &one;
    const void* beta = integer ? static_cast<const void*>(&int_zero) : &zero;
    return lt_->matmul(lt_->handle, desc_, alpha, p.weight.data, weight_, p.x.data, x_, beta, p.y.data, y_,
                       p.y.data, y_, &found_[candidate].algo, lt_->workspace.data(),
                       CublasLt::kWorkspaceBytes, stream) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value) {
    lt_->check_status(lt_->desc_set(desc_, name, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }

  void set_fp8(const Product& p) {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.weight_scale.data);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.x_scale.data);
    if (!p.x_scale.per_row) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
  }

  cublasLtMatrixLayout_t layout(DType dtype, std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t result = nullptr;
    lt_->check_status(lt_->layout_create(&result, cuda_type(dtype), static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(cols), rows),
                      "cublasLtMatrixLayoutCreate");
    return result;
  }

  void find_algorithms() {
    cublasLtMatmulPreference_t preference = nullptr;
    lt_->check_status(lt_->preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = CublasLt::kWorkspaceBytes;
    lt_->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    constexpr int kMost = 128;
    found_.resize(kMost);
    int count = 0;
    const cublasStatus_t status =
        lt_->heuristic(lt_->handle, desc_, weight_, x_, y_, y_, preference, kMost, found_.data(), &count);
    lt_->preference_destroy(preference);
    found_.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
    std::erase_if(found_, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    for (const cublasLtMatmulHeuristicResult_t& result : found_) {
      names_.push_back(fmt::format("algo {} tile {} stages {} split-k {} cluster {}",
                                   config<std::int32_t>(result, CUBLASLT_ALGO_CONFIG_ID),
                                   config<std::uint32_t>(result, CUBLASLT_ALGO_CONFIG_TILE_ID),
                                   config<std::uint32_t>(result, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                                   config<std::int32_t>(result, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                                   config<std::uint16_t>(result, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)));
    }
  }

  template <typename T>
  T config(const cublasLtMatmulHeuristicResult_t& result, cublasLtMatmulAlgoConfigAttributes_t name) const {
    T value{};
    std::size_t written = 0;
    lt_->algo_get(&result.algo, name, &value, sizeof(value), &written);
    return value;
  }

  std::shared_ptr<CublasLt> lt_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr, x_ = nullptr, y_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
  std::vector<std::string> names_;
};

class CublasLtContender final : public Contender {
 public:
  CublasLtContender(std::shared_ptr<CublasLt> library, const ContenderInfo& info, LayerData& data)
      : Contender(info), lt_(std::move(library)), data_(data), copies_(data.copies_for(weight_bytes())) {}

  double weight_bytes() const override {
    const double rows = static_cast<double>(data_.shape().n);
    const double scales = info().scaling == Scaling::kRow ? 4 * rows : 0;
    return rows * static_cast<double>(data_.shape().k) * static_cast<double>(dtype_size(info().dtype)) +
           scales;
  }
  int copies() const override { return copies_; }

  const std::vector<std::string>& prepare(std::int64_t m) override {
    auto& plan = plans_[m];
    if (!plan) plan = std::make_unique<Plan>(lt_, product(m, 0));
    return plan->names();
  }
  bool run(std::int64_t m, std::size_t candidate, int copy, cudaStream_t stream) override {
    return plans_.at(m)->run(product(m, copy), candidate, stream);
  }
  Product product(std::int64_t m, int copy) override {
    return data_.product(info(), m, copy, y_type(info().dtype));
  }

 private:
  std::shared_ptr<CublasLt> lt_;
  LayerData& data_;
  int copies_;
  std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::shared_ptr<CublasLt> load_cublaslt() { return std::make_shared<CublasLt>(); }

std::string version_of(const CublasLt& library) {
  const std::size_t v = library.version();  // 130100: 13.1.0
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::unique_ptr<Contender> make_cublaslt(const std::shared_ptr<CublasLt>& library, const ContenderInfo& info,
                                         LayerData& data) {
  return std::make_unique<CublasLtContender>(library, info, data);
}

}  // namespace grille::benchmark

#endif
