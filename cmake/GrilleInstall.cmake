# `cmake --install`: libraries, headers, the CLI, and a package that find_package(grille) finds.
# A folder's library may link imported targets of ours (torch::*, the CUDA runtime); the package config
# defines those again on the consumer's machine.
include(CMakePackageConfigHelpers)

set(package_dir lib/cmake/grille)
get_property(libraries GLOBAL PROPERTY GRILLE_LIBRARIES)
install(TARGETS ${libraries} EXPORT grilleTargets ARCHIVE DESTINATION lib)
install(EXPORT grilleTargets NAMESPACE grille:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/grille DESTINATION include
  FILES_MATCHING PATTERN "*.h" PATTERN "rust" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION share/doc/grille)

# The Rust archive that grille_text links: a file, whose place in the prefix grille_text's own link line says.
get_property(rust_archive GLOBAL PROPERTY GRILLE_TEXT_ARCHIVE)
if(rust_archive)
  install(FILES ${rust_archive} DESTINATION lib RENAME libgrille_text.a)
endif()
if(TARGET grille_cli)  # installed where it is defined; finds LibTorch where the build found it
  set_target_properties(grille_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()

list(TRANSFORM libraries REPLACE "^grille_" "grille::" OUTPUT_VARIABLE GRILLE_PACKAGE_TARGETS)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/grilleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/grilleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/grilleConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/grilleConfig.cmake
  ${PROJECT_BINARY_DIR}/grilleConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/GrilleTorch.cmake
  DESTINATION ${package_dir})
