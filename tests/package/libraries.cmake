# What a package with shared libraries ends up with: each library once, by the name that programs look for, and the
# licence texts.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
find_program(DPKG_QUERY dpkg-query)
if(NOT DPKG_QUERY)
  message("no dpkg-query here")
  return()
endif()
set(prefix ${WORK}/libraries)

# finish(ARGUMENT…): finishes a package with zlib; what it printed is in `printed`.
macro(finish)
  file(REMOVE_RECURSE ${prefix})
  execute_process(COMMAND ${COMPILER} -print-file-name=libz.so.1 OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH ${library} library)
  get_filename_component(name ${library} NAME)
  file(COPY ${library} DESTINATION ${prefix}/lib)
  file(CREATE_LINK ${name} ${prefix}/lib/libz.so.1 SYMBOLIC)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D PREFIX=${prefix} -D LIBRARIES=lib -D LICENCES=licences ${ARGN}
      -P ${SOURCE}/cmake/finish_package.cmake
    RESULT_VARIABLE result OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit code ${result}:\n${printed}")
  endif()
  file(GLOB libraries RELATIVE ${prefix}/lib ${prefix}/lib/*)
  if(NOT libraries STREQUAL libz.so.1 OR IS_SYMLINK ${prefix}/lib/libz.so.1)
    message(FATAL_ERROR "wanted libz.so.1 alone, a file: ${libraries}")
  endif()
endmacro()

file(WRITE ${WORK}/toml.hpp "text() { return R\"(The MIT License (MIT)\n\nIN\nTHE SOFTWARE.)\"; }\n")
finish(-D COMPILED= -D TOML11=${WORK}/toml.hpp)
file(READ ${prefix}/licences/toml11 toml11)
file(READ ${prefix}/licences/zlib1g zlib)
file(READ /usr/share/doc/zlib1g/copyright wanted)
if(NOT printed STREQUAL "" OR NOT toml11 STREQUAL "The MIT License (MIT)\n\nIN\nTHE SOFTWARE.\n" OR NOT zlib STREQUAL wanted)
  message(FATAL_ERROR "${printed}\nor not these licences:\n${toml11}\n${zlib}")
endif()

file(WRITE ${WORK}/toml.hpp "no licence")
finish(-D DPKG_QUERY= -D COMPILED=unknown-dev -D TOML11=${WORK}/toml.hpp)
string(REGEX REPLACE "[ \n]+" " " printed "${printed}")  # CMake breaks lines
string(FIND "${printed}" "no licence texts were found for ${name}, unknown-dev, ${WORK}/toml.hpp: put them into ${prefix}/licences before you pass the package on" position)
if(position EQUAL -1)
  message(FATAL_ERROR "not the warning that was wanted:\n${printed}")
endif()
