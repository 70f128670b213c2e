# What all targets of hookline have in common.

add_library(hookline_warnings INTERFACE)
target_compile_options(hookline_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
# g++ 12 wrongly reports overlapping copies in `"text" + std::string` (GCC bug 105651).
target_compile_options(hookline_warnings INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
# In a unity build, g++ takes the anonymous namespaces of included sources for those of headers.
# Many sources at once fill memory, which g++ would often look through for what it can free: below 2 GB, it need not.
if(CMAKE_UNITY_BUILD)
  target_compile_options(hookline_warnings INTERFACE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;--param=ggc-min-expand=100;--param=ggc-min-heapsize=1000000>")
endif()
if(HOOKLINE_WARNINGS_AS_ERRORS)
  target_compile_options(hookline_warnings INTERFACE -Werror)
endif()

# For code that no training step waits for: it takes a third less time to compile at -O1 than at -O3.
set(hookline_light_optimization $<$<CONFIG:Release>:-O1>)

# hookline_library(NAME SOURCES file… [OPTIMIZED] [LINK target…] [HEADERS file…]): a static library NAME, exported as
# hookline::NAME without its hookline_ prefix. HEADERS, relative to the calling folder, are installed. With OPTIMIZED it
# keeps the optimization of the build type, -O3 in Release: a step or a checkpoint waits for its code.
function(hookline_library name)
  cmake_parse_arguments(arg "OPTIMIZED" "" "SOURCES;LINK;HEADERS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  string(REPLACE "hookline_" "" export_name ${name})
  add_library(hookline::${export_name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${export_name})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/hookline>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE $<BUILD_INTERFACE:hookline_warnings>)
  if(NOT arg_OPTIMIZED)
    target_compile_options(${name} PRIVATE ${hookline_light_optimization})
  endif()
  install(TARGETS ${name} EXPORT hookline-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT torch)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(header IN LISTS arg_HEADERS)
    set_property(GLOBAL APPEND PROPERTY hookline_headers ${folder}/${header})
    cmake_path(GET header PARENT_PATH below)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hookline/${folder}/${below} COMPONENT torch)
  endforeach()
endfunction()

include(HooklinePch)
