# What a build may switch, and the flags that every target of ours gets.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(GRILLE_BUILD_TESTS "Build the test binaries" ON)
option(GRILLE_BUILD_BENCHMARKS "Build the benchmarks" ON)
option(GRILLE_WERROR "Treat warnings as errors" ON)
option(GRILLE_KERNELS_ONLY "Build only grille/base, formats, kernels and benchmark: no torch, no CLI" OFF)
set(GRILLE_CUDA "AUTO" CACHE STRING "Compile the CUDA kernels: AUTO (if nvcc is found), ON, OFF")
# The asan preset names the undefined-behaviour checks that it wants: `undefined` whole, with its check of every
# pointer, makes g++ five times slower.
set(GRILLE_SANITIZE "" CACHE STRING "Sanitizers for our code, as -fsanitize= takes them; empty: none")
set(GRILLE_TEXT_LIBRARY "" CACHE FILEPATH
    "A prebuilt libgrille_text.a, for machines without cargo (empty: build it)")

# Objects are cached where ccache is installed (-DCMAKE_CXX_COMPILER_LAUNCHER= switches it off).
find_program(GRILLE_CCACHE ccache)
mark_as_advanced(GRILLE_CCACHE)
if(GRILLE_CCACHE)
  foreach(language C CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${GRILLE_CCACHE})
    endif()
  endforeach()
endif()

# Flags reach our targets through this one interface library. No -m flag is here: a source file opens
# an instruction-set region for itself (see docs/HACKING.md, "Dispatch").
add_library(grille_flags INTERFACE)
target_compile_options(grille_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-psabi -fno-math-errno -fvisibility-inlines-hidden>)
target_compile_options(grille_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;--expt-relaxed-constexpr>)
if(GRILLE_WERROR)
  target_compile_options(grille_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(GRILLE_SANITIZE)
  target_compile_options(grille_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GRILLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(grille_flags INTERFACE -fsanitize=${GRILLE_SANITIZE})
endif()
