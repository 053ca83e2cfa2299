#include "grille/benchmark/cuda/registry.h"

#include "grille/base/error.h"
#include "grille/benchmark/cuda/two_four_sm90.h"

namespace grille::benchmark {

std::unique_ptr<Contender> Registry::make(const ContenderInfo& info, LayerData& data) {
  switch (info.library) {
    case Library::kCublasLt:
#ifdef GRILLE_HAS_CUBLASLT
      if (!cublaslt_) cublaslt_ = load_cublaslt();
      return make_cublaslt(cublaslt_, info, data);
#else
      fail(ErrorCode::kUnsupported, "this build was configured without cublasLt.h");
#endif
    case Library::kCusparseLt:
#ifdef GRILLE_HAS_CUSPARSELT
      if (!cusparselt_) cusparselt_ = load_cusparselt();
      return make_cusparselt(cusparselt_, info, data);
#else
      fail(ErrorCode::kUnsupported, "this build was configured without cusparseLt.h");
#endif
    case Library::kGrille: return make_two_four_sm90(info, data, device_, plans_);
  }
  fail(ErrorCode::kInternal, "{}: no such library", info.name);
}

void Registry::describe(DeviceRecord& record) const {
#ifdef GRILLE_HAS_CUBLASLT
  if (cublaslt_) record.cublaslt = version_of(*cublaslt_);
#endif
#ifdef GRILLE_HAS_CUSPARSELT
  if (cusparselt_) record.cusparselt = version_of(*cusparselt_);
#endif
}

}  // namespace grille::benchmark
