# The installed package. After find_package(hookline), projects link hookline::hookline, hookline::parallel
# and the rest. What is for one version of torch is the component `torch`.

include(CMakePackageConfigHelpers)
set(_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hookline)

if(HOOKLINE_TORCH_HALF)
  # What training programs link. (The target named `hookline` is the launcher, so this one has another name.)
  add_library(hookline_hookline INTERFACE)
  add_library(hookline::hookline ALIAS hookline_hookline)
  set_target_properties(hookline_hookline PROPERTIES EXPORT_NAME hookline)
  target_link_libraries(hookline_hookline INTERFACE hookline_parallel)
  # <hookline/hookline.h> and <hookline/forward.h>, and <hookline/plugin.h> for those that link hookline::plugin, in the build tree and
  # when installed.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/hookline/hookline.h
    CONTENT "#pragma once\n#include \"parallel/hookline.h\"\n")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/hookline/forward.h
    CONTENT "#pragma once\n#include \"parallel/forward.h\"\n")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/hookline/plugin.h
    CONTENT "#pragma once\n#include \"hooks/comm_hook.h\"\n#include \"hooks/per_bucket.h\"\n#include \"hooks/registry/register.h\"\n")
  foreach(target hookline_hookline hookline_plugin)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  install(FILES ${PROJECT_BINARY_DIR}/include/hookline/forward.h ${PROJECT_BINARY_DIR}/include/hookline/hookline.h
      ${PROJECT_BINARY_DIR}/include/hookline/plugin.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hookline COMPONENT torch)
  install(TARGETS hookline_hookline EXPORT hookline-targets COMPONENT torch)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/FindHooklineTorch.cmake DESTINATION ${_package_folder} COMPONENT torch)
endif()

# An installed header may include only installed headers.
get_property(_headers GLOBAL PROPERTY hookline_headers)
foreach(_header IN LISTS _headers)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${_header} _includes REGEX "^#include \"")
  list(TRANSFORM _includes REPLACE "^#include \"([^\"]*)\".*" "\\1")
  list(REMOVE_ITEM _includes ${_headers})
  if(_includes)
    message(FATAL_ERROR "${_header} is installed and includes what is not: ${_includes}. "
      "Name it in the HEADERS of its library, or declare what is needed of it.")
  endif()
endforeach()
# `./dev docs` compares this list with the headers that Doxyfile names.
list(JOIN _headers "\n" _lines)
file(WRITE ${PROJECT_BINARY_DIR}/installed_headers.txt "${_lines}\n")

install(EXPORT hookline-targets NAMESPACE hookline:: DESTINATION ${_package_folder} COMPONENT torch)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hooklineConfig.cmake.in ${PROJECT_BINARY_DIR}/hooklineConfig.cmake
  INSTALL_DESTINATION ${_package_folder} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hooklineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hooklineConfig.cmake ${PROJECT_BINARY_DIR}/hooklineConfigVersion.cmake
  DESTINATION ${_package_folder} COMPONENT torch)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
