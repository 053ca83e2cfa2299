# Whether CUDA kernels are compiled, and with which nvcc. Sets GRILLE_HAS_CUDA and, when it is on, the
# target grille_cudart: the CUDA runtime's headers and its shared library.
#
# nvcc is taken from -DCMAKE_CUDA_COMPILER, else from the wheels in .venv (tools/setup.sh), else from the
# system. A machine without a GPU or a driver builds and runs all this: kernels are launched only when a
# CUDA device is asked for.
set(GRILLE_HAS_CUDA OFF)
if(NOT GRILLE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "GRILLE_CUDA=${GRILLE_CUDA}: expected AUTO, ON or OFF")
endif()
if(GRILLE_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off (GRILLE_CUDA=OFF). This build runs on the CPU only.")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  file(GLOB wheel_bins ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/bin)
  find_program(GRILLE_NVCC nvcc HINTS ${wheel_bins} PATHS /usr/local/cuda/bin)
  mark_as_advanced(GRILLE_NVCC)
  if(NOT GRILLE_NVCC)
    if(GRILLE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "GRILLE_CUDA=ON, but there is no nvcc: run tools/setup.sh, or pass "
                          "-DCMAKE_CUDA_COMPILER=<path of nvcc 13.0>")
    endif()
    message(WARNING "CUDA: no nvcc found. This build runs on the CPU only (tools/setup.sh installs nvcc).")
    return()
  endif()
  set(CMAKE_CUDA_COMPILER ${GRILLE_NVCC})
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90a)
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 knows nvcc's C++17 at most
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)

# One CUDA runtime in the process: the shared one that libtorch_cpu needs anyway. It loads without a driver.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
get_filename_component(nvcc_real ${CMAKE_CUDA_COMPILER} REALPATH)
get_filename_component(cuda_root ${nvcc_real} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_library(GRILLE_CUDART NAMES libcudart.so.13 libcudart.so
  HINTS ${GRILLE_TORCH_DIR}/../nvidia/cu13/lib ${cuda_root}/lib ${cuda_root}/lib64
        ${cuda_root}/targets/x86_64-linux/lib
  NO_DEFAULT_PATH)
find_library(GRILLE_CUDART NAMES libcudart.so.13 libcudart.so REQUIRED)
mark_as_advanced(GRILLE_CUDART)
file(REAL_PATH ${GRILLE_CUDART} GRILLE_CUDART_FILE)
find_path(GRILLE_CUDA_INCLUDE cuda_runtime_api.h REQUIRED
  HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include)
mark_as_advanced(GRILLE_CUDA_INCLUDE)
add_library(grille_cudart SHARED IMPORTED GLOBAL)
set_target_properties(grille_cudart PROPERTIES IMPORTED_LOCATION ${GRILLE_CUDART_FILE})
target_include_directories(grille_cudart SYSTEM INTERFACE ${GRILLE_CUDA_INCLUDE})

# Headers of the libraries that `grille bench linear` compares with; the libraries themselves are looked for
# when the command runs.
file(GLOB wheel_cusparselt ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cusparselt/include)
find_path(GRILLE_CUBLASLT_INCLUDE cublasLt.h HINTS ${GRILLE_CUDA_INCLUDE})
find_path(GRILLE_CUSPARSELT_INCLUDE cusparseLt.h
  HINTS ${GRILLE_CUDA_INCLUDE} ${GRILLE_TORCH_DIR}/../nvidia/cusparselt/include ${wheel_cusparselt})
mark_as_advanced(GRILLE_CUBLASLT_INCLUDE GRILLE_CUSPARSELT_INCLUDE)
foreach(header cublasLt cusparseLt)
  string(TOUPPER ${header} upper)
  if(NOT GRILLE_${upper}_INCLUDE)
    message(STATUS "CUDA: no ${header}.h, so 'grille bench linear' will not compare with that library")
  endif()
endforeach()
set(GRILLE_HAS_CUDA ON)
list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
message(STATUS "CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for sm_ ${architectures} (${CMAKE_CUDA_COMPILER})")
