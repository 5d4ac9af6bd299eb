# cubist_page_program(<variable> <page> <language> <file>): reads a file of examples/, which users copy, without its licence
# line, and checks that the page shows it.
function(cubist_page_program variable page language file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}" "${file}")
  file(READ "${page}" text)
  file(READ "${file}" program)
  string(REGEX REPLACE "^// SPDX-[^\n]*\n" "" program "${program}")
  string(FIND "${text}" "```${language}\n${program}```" at)
  if(at LESS 0)
    message(FATAL_ERROR "${page} does not show the program ${file} as it is; copy the file into the page, without its first comment")
  endif()
  set(${variable} "${program}" PARENT_SCOPE)
endfunction()

# cubist_readme_command(<variable> <program> <text>): finds the README's first command that runs the program and contains the
# text, and lists its arguments. Tests run the command as it stands there.
function(cubist_readme_command variable program text)
  set(page "${PROJECT_SOURCE_DIR}/README.md") # spelled as for cubist_page_program(): ninja takes two spellings for two files
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
  file(STRINGS "${page}" commands REGEX "/${program} .*${text}")
  list(POP_FRONT commands command)
  if(NOT command MATCHES "/${program} ([^#]*)")
    message(FATAL_ERROR "README.md has no command of ${program} with '${text}'")
  endif()
  separate_arguments(words UNIX_COMMAND "${CMAKE_MATCH_1}")
  set(${variable} "${words}" PARENT_SCOPE)
endfunction()
