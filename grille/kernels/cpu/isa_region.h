// Everything that the *-inl.h files of this folder need, included before a file opens its instruction-set
// region: code of these headers must be compiled for the baseline, for the linker keeps one copy of it.
//
// A file of one instruction set is: this header; GRILLE_BEGIN_...; the *-inl.h files, whose code is all in
// an anonymous namespace; a table of functions; GRILLE_END_ISA.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
// GCC 12 takes its own headers' undefined vectors for mistakes (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include "grille/base/error.h"
#include "grille/base/float_bits.h"
#include "grille/base/matrix_view.h"
#include "grille/formats/fp8.h"
#include "grille/formats/paged_kv.h"
#include "grille/kernels/cpu/element_types.h"
#include "grille/kernels/cpu/scratch.h"

#define GRILLE_BEGIN_AVX2 _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,f16c,bmi,bmi2,popcnt\")")
#define GRILLE_BEGIN_AVX512                                                       \
  GRILLE_BEGIN_AVX2 _Pragma("GCC target(\"avx512f,avx512bw,avx512dq,avx512vl\")") \
      _Pragma("GCC target(\"avx512vbmi,avx512vbmi2,avx512bf16,gfni\")")
#define GRILLE_END_ISA _Pragma("GCC pop_options")
