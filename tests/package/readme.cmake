# The README's first program and its project are the ones that are built here, to the letter.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
file(READ ${SOURCE}/README.md readme)

function(expect_in_readme language file)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/consumer/${file} text)
  string(FIND "${readme}" "```${language}\n${text}```" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "README.md does not show tests/package/consumer/${file} as it is")
  endif()
endfunction()

expect_in_readme(cpp train.cpp)
expect_in_readme(cmake CMakeLists.txt)

# Its table of hooks has a row for each hook of the catalog, and no other.
execute_process(COMMAND ${BUILD}/bin/hookline hooks list --json OUTPUT_VARIABLE catalog COMMAND_ERROR_IS_FATAL ANY)
string(JSON count LENGTH "${catalog}" hooks)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${catalog}" hooks ${i} name)
  list(APPEND in_catalog ${name})
endforeach()
string(REGEX MATCH "\n## Hooks\n.*\n## In your own" section "${readme}")
string(REGEX MATCHALL "\n[|] `[a-z0-9_]+` [|]" rows "${section}")
list(TRANSFORM rows REPLACE "[^a-z0-9_]+" "")
if(NOT rows STREQUAL in_catalog)
  message(FATAL_ERROR "README.md's table has the hooks '${rows}', the catalog '${in_catalog}'")
endif()
