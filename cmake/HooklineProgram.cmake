# How programs are installed. Packages for systems without Debian's libraries contain the shared libraries that the
# programs need, in libexec/hookline/lib.
option(HOOKLINE_BUNDLED_LIBRARIES "Install the shared libraries that hookline's programs need along with them" OFF)

# What must be the system's own: the runtimes of C and C++.
set(hookline_system_libraries "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc[+][+])[.]so")

# hookline_install_program(TARGET FOLDER): TARGET, which links no libtorch, goes into FOLDER, relative to the prefix.
function(hookline_install_program target folder)
  set(destination ${folder})
  if(SKBUILD AND folder STREQUAL CMAKE_INSTALL_BINDIR)  # a wheel has a folder of its own for what goes onto PATH
    set(destination ${SKBUILD_SCRIPTS_DIR})
  endif()
  set(bundled)
  if(HOOKLINE_BUNDLED_LIBRARIES)
    file(RELATIVE_PATH libraries /${folder} /${CMAKE_INSTALL_LIBEXECDIR}/hookline/lib)
    # As DT_RPATH, which the bundled libraries use too, to find each other.
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN/${libraries}")
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
    set(bundled RUNTIME_DEPENDENCY_SET hookline_libraries)
  endif()
  install(TARGETS ${target} ${bundled} RUNTIME DESTINATION ${destination} COMPONENT launcher)
endfunction()

# Debian's packages of what is compiled into the launcher and into the C++ library.
set(hookline_compiled_everywhere libfmt-dev libspdlog-dev libxxhash-dev nlohmann-json3-dev)

# After all programs: installs the libraries that they need, and the licence texts of all that a package then contains.
function(hookline_install_libraries)
  if(HOOKLINE_BUNDLED_LIBRARIES)
    set(libraries ${CMAKE_INSTALL_LIBEXECDIR}/hookline/lib)
    install(RUNTIME_DEPENDENCY_SET hookline_libraries PRE_EXCLUDE_REGEXES ${hookline_system_libraries}
      LIBRARY DESTINATION ${libraries} COMPONENT launcher)
    hookline_finish_package(launcher ${CMAKE_INSTALL_DOCDIR}/licences "${libraries}" ${hookline_compiled_everywhere}
      cppzmq-dev libcli11-dev libsqlite3-dev libsqlitecpp-dev libyaml-cpp-dev)
  elseif(SKBUILD)  # the wheel hookline-torch
    hookline_finish_package(torch ${CMAKE_INSTALL_DATADIR}/doc/hookline-torch/licences "" ${hookline_compiled_everywhere})
  endif()
endfunction()

# hookline_finish_package(COMPONENT LICENCES LIBRARIES COMPILED…): runs finish_package.cmake after COMPONENT is installed.
function(hookline_finish_package component licences libraries)
  set(compiled ${ARGN})
  set(toml11)
  if(HOOKLINE_TOML11_INCLUDE)
    set(toml11 ${HOOKLINE_TOML11_INCLUDE}/toml.hpp)
  else()
    list(APPEND compiled libtoml11-dev)
  endif()
  install(CODE "
    set(PREFIX \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    set(LIBRARIES \"${libraries}\")
    set(LICENCES \"${licences}\")
    set(COMPILED \"${compiled}\")
    set(TOML11 \"${toml11}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/finish_package.cmake\")" COMPONENT ${component})
endfunction()
