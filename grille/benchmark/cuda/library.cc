#include "grille/benchmark/cuda/library.h"

#include <dlfcn.h>

#include <cuda_runtime_api.h>

namespace grille::benchmark {
namespace {

// Folder of the loaded libcudart, with a slash at its end; empty if it cannot be told.
std::string cuda_runtime_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cudaGetDeviceCount), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& title, const std::string& file, const std::string& beside)
    : title_(title) {
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string folder = cuda_runtime_folder();
  if (handle_ == nullptr && !folder.empty()) {
    for (const std::string& path : {folder + file, folder + beside + "/" + file}) {
      if (handle_ == nullptr) handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  check(handle_ != nullptr, ErrorCode::kNotFound,
        "{}: {} was not found; install it, or put its folder on LD_LIBRARY_PATH", title, file);
}

void* SharedLibrary::address(const char* name) const {
  void* found = dlsym(handle_, name);
  check(found != nullptr, ErrorCode::kNotFound, "{}: this version has no {}", title_, name);
  return found;
}

}  // namespace grille::benchmark
