# grille_folder(NAME DEPS ... TEST_DEPS ...): one static library `grille_NAME` from the folder's *.cc,
# those of its cpu/ folder and, when CUDA is compiled, cuda/*.{cc,cu}; and one test binary
# `grille_NAME_test` from the *_test.cc among them; a fuzz_test.cc is a binary of its own, which is all that
# `make fuzz` has to build under its sanitizer. The global property GRILLE_LIBRARIES lists the libraries.
function(grille_folder name)
  cmake_parse_arguments(arg "" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc cpu/*.cc)
  file(GLOB cuda_sources CONFIGURE_DEPENDS cuda/*.cc cuda/*.cu)
  set(with_cuda OFF)
  if(GRILLE_HAS_CUDA AND cuda_sources)
    set(with_cuda ON)
    list(APPEND sources ${cuda_sources})
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")

  add_library(grille_${name} STATIC ${sources})
  add_library(grille::${name} ALIAS grille_${name})
  set_target_properties(grille_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(grille_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(grille_${name} PUBLIC ${arg_DEPS} PRIVATE $<BUILD_INTERFACE:grille_flags>)
  if(with_cuda)
    target_link_libraries(grille_${name} PRIVATE grille_cudart)
    target_compile_definitions(grille_${name} PRIVATE GRILLE_HAS_CUDA=1)
    list(APPEND arg_TEST_DEPS grille_cudart)
  endif()
  set_property(GLOBAL APPEND PROPERTY GRILLE_LIBRARIES grille_${name})
  set(fuzz_tests ${tests})
  list(FILTER fuzz_tests INCLUDE REGEX "/fuzz_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "/fuzz_test\\.cc$")
  if(GRILLE_BUILD_TESTS AND tests)
    grille_test(grille_${name}_test SOURCES ${tests} DEPS grille_${name} ${arg_TEST_DEPS})
  endif()
  if(GRILLE_BUILD_TESTS AND fuzz_tests)
    grille_test(grille_${name}_fuzz_test SOURCES ${fuzz_tests} DEPS grille_${name} ${arg_TEST_DEPS})
  endif()
endfunction()

# grille_test(NAME SOURCES ... DEPS ...): a GoogleTest binary. Its tests become CTest tests; the name of
# a suite sets the label, also behind the prefix of TEST_P ("Sizes/SlowPack"):
#   Slow*    slow
#   Gpu*     gpu      skipped where there is no CUDA device
#   Fuzz*    fuzz     GRILLE_FUZZ_RUNS (default 2000) random inputs a test; `make fuzz` runs more, under asan
#   PerIsa*  per_isa  run once for each GRILLE_ISA; skipped where the CPU lacks it
#   others   unit
function(grille_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} grille_flags GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE GRILLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Suites are read from the sources, so that an edit of one is a reason to configure again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${arg_SOURCES})
  set(text "")
  foreach(source IN LISTS arg_SOURCES)
    file(READ ${source} contents)
    string(APPEND text "${contents}")
  endforeach()

  set(special "")
  foreach(kind Slow Gpu Fuzz PerIsa)
    list(APPEND special "${kind}*" "*/${kind}*")
  endforeach()
  list(JOIN special ":" special)
  if(NOT name MATCHES "_fuzz_test$")  # which has no others
    add_test(NAME ${name} COMMAND ${name} --gtest_filter=-${special})
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
  endif()
  foreach(kind Slow Gpu Fuzz)
    if(NOT text MATCHES "TEST(_P|_F)?\\([ \n]*${kind}")
      continue()
    endif()
    string(TOLOWER ${kind} label)
    add_test(NAME ${name}.${label} COMMAND ${name} --gtest_filter=${kind}*:*/${kind}*)
    set_tests_properties(${name}.${label} PROPERTIES LABELS ${label} TIMEOUT 1800)
    if(kind STREQUAL "Gpu")
      set_tests_properties(${name}.gpu PROPERTIES
        RESOURCE_LOCK gpu SKIP_REGULAR_EXPRESSION "no CUDA device")
    elseif(kind STREQUAL "Fuzz")
      set_property(GLOBAL APPEND PROPERTY GRILLE_FUZZ_TESTS ${name})
    endif()
  endforeach()
  if(text MATCHES "TEST(_P|_F)?\\([ \n]*PerIsa")
    foreach(isa scalar avx2 avx512 amx)
      add_test(NAME ${name}.${isa} COMMAND ${name} --gtest_filter=PerIsa*:*/PerIsa*)
      set_tests_properties(${name}.${isa} PROPERTIES
        LABELS per_isa TIMEOUT 600 ENVIRONMENT GRILLE_ISA=${isa}
        SKIP_REGULAR_EXPRESSION "GRILLE_ISA=${isa}: this CPU lacks")
    endforeach()
  endif()
endfunction()
