# `cmake --install`: libraries, headers, the CLI, and a package that find_package(grille) finds.
# A folder's library may link imported targets of ours (torch::*, the Rust library); the package config
# defines those again on the consumer's machine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/grille)
get_property(libraries GLOBAL PROPERTY GRILLE_LIBRARIES)
install(TARGETS ${libraries} EXPORT grilleTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT grilleTargets NAMESPACE grille:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/grille DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "rust" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/grille)

# The Rust static library that grille_text links: an imported target, installed as a file.
set(GRILLE_RUST_TARGET "")
if(TARGET grille_text_rust)
  set(GRILLE_RUST_TARGET grille_text_rust)
  get_target_property(rust_library grille_text_rust IMPORTED_LOCATION)
  get_target_property(GRILLE_RUST_LINKS grille_text_rust INTERFACE_LINK_LIBRARIES)
  if(NOT GRILLE_RUST_LINKS)
    set(GRILLE_RUST_LINKS "")
  endif()
  install(FILES ${rust_library} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libgrille_text_rust.a)
endif()

if(TARGET grille_cli)
  set_target_properties(grille_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS grille_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
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
