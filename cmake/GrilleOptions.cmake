# What a build may switch, and the flags that every target of ours gets.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(GRILLE_BUILD_TESTS "Build the test binaries" ON)
option(GRILLE_BUILD_BENCHMARKS "Build the benchmarks" ON)
option(GRILLE_WERROR "Treat warnings as errors" ON)
set(GRILLE_CUDA "AUTO" CACHE STRING "Compile the CUDA kernels: AUTO (if nvcc is found), ON, OFF")
set(GRILLE_SANITIZE "" CACHE STRING "Sanitizers for our code: '', 'address,undefined' or 'thread'")
set(GRILLE_TEXT_LIBRARY "" CACHE FILEPATH
    "A prebuilt libgrille_text.a, for machines without cargo (empty: build it)")

# Flags reach our targets through this one interface library. No -m flag is here: a source file opens
# an instruction-set region for itself (see docs/HACKING.md, "Dispatch").
add_library(grille_flags INTERFACE)
target_compile_options(grille_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-psabi -fno-math-errno -fvisibility-inlines-hidden>)
if(GRILLE_WERROR)
  target_compile_options(grille_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(GRILLE_SANITIZE)
  target_compile_options(grille_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GRILLE_SANITIZE} -fno-omit-frame-pointer -g>)
  target_link_options(grille_flags INTERFACE -fsanitize=${GRILLE_SANITIZE})
endif()
