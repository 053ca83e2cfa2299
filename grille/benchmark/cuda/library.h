// Shared libraries that are looked for when they are needed, so that grille starts without them.
#pragma once

#include <string>

#include "grille/base/error.h"

namespace grille::benchmark {

class SharedLibrary {
 public:
  // Loads `file` by the loader's own search, else from the folder of the CUDA runtime in use (a toolkit, or
  // the nvidia wheels), else from `beside`, relative to that folder. Stays loaded until the process ends.
  // Throws Error{kNotFound} "<title>: ..." with what to do.
  SharedLibrary(const std::string& title, const std::string& file, const std::string& beside);

  // The address of `name`, as a pointer of type F. Throws Error{kNotFound} if the library is too old.
  template <typename F>
  F function(const char* name) const {
    return reinterpret_cast<F>(address(name));
  }

 private:
  void* address(const char* name) const;

  std::string title_;
  void* handle_ = nullptr;
};

}  // namespace grille::benchmark
