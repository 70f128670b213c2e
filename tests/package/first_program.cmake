# The first program of the documentation and its project are those of `hookline new`, to the letter.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
file(READ ${SOURCE}/docs/tutorials/first_program.md page)

function(expect_on_page language file)
  file(READ ${SOURCE}/templates/project/${file} text)
  string(REPLACE "\${sources}" "train.cpp" text "${text}")
  string(FIND "${page}" "```${language}\n${text}```" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "docs/tutorials/first_program.md does not show templates/project/${file} as it is")
  endif()
endfunction()

expect_on_page(cpp train.cpp)
expect_on_page(cmake CMakeLists.txt)
