# Imported targets for LibTorch from an installed wheel:
#   torch::cpu  headers, libc10 and libtorch_cpu (starts without loading a CUDA library)
# GRILLE_TORCH_DIR names the wheel's `torch` folder; by default .venv's, else that of `python3`.
if(NOT GRILLE_TORCH_DIR)
  file(GLOB candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(candidates)
    list(GET candidates 0 found)
  else()
    execute_process(
      COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(GRILLE_TORCH_DIR "${found}" CACHE PATH "The torch folder of an installed PyTorch wheel" FORCE)
endif()
if(NOT EXISTS ${GRILLE_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch not found in '${GRILLE_TORCH_DIR}': run tools/setup.sh, or pass "
                      "-DGRILLE_TORCH_DIR=<site-packages>/torch of torch 2.11.0")
endif()

# The wheel's include folder also carries other libraries' headers (its own fmt among them), which must not
# hide the system's: show only torch's.
set(torch_include ${CMAKE_BINARY_DIR}/torch_include)
file(MAKE_DIRECTORY ${torch_include})
foreach(folder ATen c10 caffe2 torch)
  file(CREATE_LINK ${GRILLE_TORCH_DIR}/include/${folder} ${torch_include}/${folder} SYMBOLIC)
endforeach()

add_library(torch::c10 SHARED IMPORTED)
set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION ${GRILLE_TORCH_DIR}/lib/libc10.so)
add_library(torch::cpu SHARED IMPORTED)
set_target_properties(torch::cpu PROPERTIES
  IMPORTED_LOCATION ${GRILLE_TORCH_DIR}/lib/libtorch_cpu.so
  INTERFACE_LINK_LIBRARIES "torch::c10;Threads::Threads")
target_include_directories(torch::cpu SYSTEM INTERFACE
  ${torch_include} ${torch_include}/torch/csrc/api/include)
