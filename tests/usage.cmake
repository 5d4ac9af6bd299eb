# Builds and runs the pages' programs as they stand there: the planner's on figures of a machine, the one for files on files by
# NumPy and by a safetensors writer, the one for transformers on a model by Hugging Face. cubist_numpy_test is from numpy.cmake.
include(CubistReadme)
set(docs "${PROJECT_SOURCE_DIR}/docs")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${docs}/schemes.md" "${docs}/first_program.md" "${docs}/files.md"
  "${docs}/transformers.md" "${docs}/finetuning.md" "${docs}/generation.md" "${docs}/training.md" "${docs}/data.md" "${docs}/optimizers.md"
  usage/usage.cpp.in usage/training.cpp.in usage/guide.cpp.in)

# cubist_usage_program(<variable> <program>): reads a program; adds its includes to USAGE_INCLUDES.
function(cubist_usage_program variable program)
  string(REGEX MATCHALL "#include <[^\n]*>\n" includes "${program}")
  string(REGEX REPLACE "#include <[^\n]*>\n" "" program "${program}")
  set(${variable} "${program}" PARENT_SCOPE)
  set(USAGE_INCLUDES ${USAGE_INCLUDES} ${includes} PARENT_SCOPE)
endfunction()

# cubist_usage_block(<variable> <page> <text>): reads the first C++ block after a text; adds its includes to USAGE_INCLUDES.
function(cubist_usage_block variable page after)
  file(READ "${page}" text)
  string(FIND "${text}" "${after}" begin)
  if(begin LESS 0)
    message(FATAL_ERROR "${page} does not have \"${after}\", which comes before a program that is tested")
  endif()
  string(SUBSTRING "${text}" ${begin} -1 block)
  string(FIND "${block}" "```cpp\n" begin)
  math(EXPR begin "${begin} + 7")
  string(SUBSTRING "${block}" ${begin} -1 block)
  string(FIND "${block}" "```" end)
  string(SUBSTRING "${block}" 0 ${end} block)
  cubist_usage_program(block "${block}")
  set(${variable} "${block}" PARENT_SCOPE)
  set(USAGE_INCLUDES ${USAGE_INCLUDES} PARENT_SCOPE)
endfunction()

set(USAGE_INCLUDES)
cubist_usage_block(USAGE_PLANNER "${docs}/schemes.md" "## Planner")
cubist_page_program(USAGE_CSV "${docs}/first_program.md" cpp "${PROJECT_SOURCE_DIR}/examples/my_program/first_program.cpp")
cubist_usage_program(USAGE_CSV "${USAGE_CSV}")
cubist_usage_block(USAGE_PRODUCT "${docs}/first_program.md" "## A product")
cubist_usage_block(USAGE_FILES "${docs}/files.md" "This loads weights that PyTorch saved")
cubist_usage_block(USAGE_TRANSFORMER "${docs}/transformers.md" "## A model")
cubist_usage_block(USAGE_TUNE "${docs}/finetuning.md" "## A program")
cubist_usage_block(USAGE_FROZEN "${docs}/finetuning.md" "## Frozen parameters")
cubist_usage_block(USAGE_LAST_BLOCK "${docs}/finetuning.md" "This one trains only the last block")
cubist_usage_block(USAGE_LORA "${docs}/finetuning.md" "## LoRA")
cubist_usage_block(USAGE_GROUPS "${docs}/optimizers.md" "## Groups of parameters")
cubist_usage_block(USAGE_PROMPTS "${docs}/generation.md" "## Continuing prompts")
string(REPLACE "int main(" "int run(" USAGE_CSV "${USAGE_CSV}")
string(REPLACE "int main(" "int run(" USAGE_PRODUCT "${USAGE_PRODUCT}")
string(REPLACE "int main(" "int run(" USAGE_TUNE "${USAGE_TUNE}")
string(REPLACE "…" "print(plans.front());" USAGE_PLANNER "${USAGE_PLANNER}")
string(REPLACE ";" "" USAGE_INCLUDES "${USAGE_INCLUDES}")
configure_file(usage/usage.cpp.in usage.cpp @ONLY)

# (Where g++ compiles these programs, it has no precompiled headers, and finds what a page forgets to include.)
add_executable(cubist_usage "${CMAKE_CURRENT_BINARY_DIR}/usage.cpp")
target_link_libraries(cubist_usage PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_usage cubist_network_precompiled)
set(folder "${CMAKE_CURRENT_BINARY_DIR}/usage")
file(WRITE "${folder}/machine.json" "{\"cores\": 8, \"ranks_per_node\": 8}\n")
add_test(NAME "usage: planner" COMMAND cubist_usage planner WORKING_DIRECTORY "${folder}")
set_tests_properties("usage: planner" PROPERTIES LABELS examples TIMEOUT 60 PASS_REGULAR_EXPRESSION "^[A-Za-z0-9]+ on [12] ranks\n$")
add_test(NAME "usage: a product" COMMAND cubist_usage product)
set_tests_properties("usage: a product" PROPERTIES LABELS examples TIMEOUT 60 ENVIRONMENT CUBIST_BLAS_WARNING=off
  PASS_REGULAR_EXPRESSION "^512\n$")
file(COPY "${PROJECT_SOURCE_DIR}/examples/data/digits.csv" DESTINATION "${folder}")
add_test(NAME "usage: an MLP on a CSV file" COMMAND cubist_usage csv WORKING_DIRECTORY "${folder}")
set_tests_properties("usage: an MLP on a CSV file" PROPERTIES LABELS examples TIMEOUT 60 ENVIRONMENT CUBIST_BLAS_WARNING=off
  PASS_REGULAR_EXPRESSION "epoch 10  loss 0\\.[0-9]+  accuracy 0\\.9[67][0-9]*\n$")
file(MAKE_DIRECTORY "${folder}/empty")
add_test(NAME "usage: a CSV file that is not there" COMMAND bash -c "$<TARGET_FILE:cubist_usage> csv; echo status $?"
  WORKING_DIRECTORY "${folder}/empty")
set_tests_properties("usage: a CSV file that is not there" PROPERTIES LABELS examples TIMEOUT 60 ENVIRONMENT CUBIST_BLAS_WARNING=off
  PASS_REGULAR_EXPRESSION "^cubist: rank [0-7]: cannot open digits\\.csv [^\n]*\nstatus 1\n$")
file(COPY "${CUBIST_TRANSFORMER_DATA}/gpt2_tiny/" DESTINATION "${folder}/gpt2")
add_test(NAME "usage: transformers" COMMAND cubist_usage transformer WORKING_DIRECTORY "${folder}")
set_tests_properties("usage: transformers" PROPERTIES LABELS examples TIMEOUT 60
  PASS_REGULAR_EXPRESSION "^loss 4\\.844[0-9]*\nloss 5\\.189[0-9]*\n8 tokens\n([01]: [0-9]+\n)+16 tokens, loss [0-9.]+\n$")
# Prompts of 2 and 1 tokens, and texts of 5, 4 and 3.
# A block of the model has 16 parameters: 6 weights with their biases, and 2 norms with theirs. The norm after it has 2 more.
file(WRITE "${folder}/texts.txt" "2 17 42 5 9 0\n1 8 30 31 0\n1 3 60 0\n2 1 2 3 0\n1 5 4 0\n")
add_test(NAME "usage: fine-tuning" COMMAND cubist_usage tune WORKING_DIRECTORY "${folder}")
set_tests_properties("usage: fine-tuning" PROPERTIES LABELS examples TIMEOUT 60
  PASS_REGULAR_EXPRESSION "^(epoch [123]  loss [0-9.]+\n)+trains 18 parameters\ntrains 16 parameters\n$")

set(USAGE_INCLUDES)
cubist_usage_block(USAGE_RUN "${docs}/training.md" "## A run")
cubist_usage_block(USAGE_DATA "${docs}/data.md" "## Batches")
cubist_usage_block(USAGE_ROWS "${docs}/data.md" "## Choosing rows")
cubist_usage_block(USAGE_NUMBERS "${docs}/first_program.md" "## Numbers instead of classes")
# Runs a fifth of the steps, with a report and a checkpoint after each half.
foreach(steps ".steps = 20,|.steps = 4," ".warm_up = 5, .steps = 4,|.warm_up = 1, .steps = 4," ".save_every = 10,|.save_every = 2,"
    ".report_every = 10,|.report_every = 2,")
  string(REPLACE "|" ";" steps "${steps}")
  list(GET steps 0 page_steps)
  list(GET steps 1 fewer_steps)
  if(NOT USAGE_RUN MATCHES "${page_steps}")
    message(FATAL_ERROR "docs/training.md does not have \"${page_steps}\", which its test replaces")
  endif()
  string(REPLACE "${page_steps}" "${fewer_steps}" USAGE_RUN "${USAGE_RUN}")
endforeach()
string(REPLACE ";" "" USAGE_INCLUDES "${USAGE_INCLUDES}")
configure_file(usage/training.cpp.in usage_training.cpp @ONLY)
add_executable(cubist_usage_training "${CMAKE_CURRENT_BINARY_DIR}/usage_training.cpp")
target_link_libraries(cubist_usage_training PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_usage_training cubist_network_precompiled)
add_test(NAME "usage: training"
  COMMAND bash -c "rm -rf run1; $<TARGET_FILE:cubist_usage_training>" WORKING_DIRECTORY "${folder}")
set_tests_properties("usage: training" PROPERTIES LABELS examples TIMEOUT 60
  PASS_REGULAR_EXPRESSION "256 tokens, 64 x 64, 64 labels, 359 and 359 held out\n3 x 64, 3 labels\nerror 0[.]00[0-9]*\nstep 2/4  loss [0-9.]+  [0-9]+ tokens/s  waiting [0-9]+ %  .* left\nstep 4/4  loss ")
cubist_numpy_test("weights and labels" usage.py cubist_usage files)

# The guide's pages make up one program. Its blocks follow these texts, and its messages are compared with the pages.
foreach(block "BACKENDS|backends|# From a laptop" "SCHEME|tensor_parallelism|## In cubist" "COLOSSAL|coming_from|With cubist:"
    "PRODUCT|products|## A product" "LAYOUTS|coming_from|## MindSpore" "MINDSPORE|coming_from|the scheme `Scheme::Next`" "MESH|errors|## A mesh" "IDLE|errors|You can also leave ranks idle" "SIZES|errors|## Sizes"
    "LABELS|errors|## Labels" "BACKWARD|errors|## Backward" "CALLS|errors|## Ranks that make" "DEADLOCK|errors|## Ranks that wait"
    "LATE|errors|On threads such a deadlock is" "NAN|errors|## A loss" "FILE|errors|## A file")
  string(REPLACE "|" ";" block "${block}")
  list(GET block 0 name)
  list(GET block 1 page)
  list(GET block 2 after)
  set(page "${PROJECT_SOURCE_DIR}/docs/${page}.md")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
  cubist_usage_block(GUIDE_${name} "${page}" "${after}")
endforeach()
configure_file(usage/guide.cpp.in usage_guide.cpp @ONLY)
add_executable(cubist_usage_guide "${CMAKE_CURRENT_BINARY_DIR}/usage_guide.cpp")
target_link_libraries(cubist_usage_guide PRIVATE cubist::cubist cubist_warnings)
cubist_use_precompiled(cubist_usage_guide cubist_network_precompiled)
foreach(page "coming_from run" "errors errors")
  separate_arguments(page)
  list(POP_BACK page argument)
  add_test(NAME "usage: ${page}.md" COMMAND "${CMAKE_COMMAND}" "-DPAGE=${PROJECT_SOURCE_DIR}/docs/${page}.md"
    "-DPROGRAM=$<TARGET_FILE:cubist_usage_guide>" -DARGUMENT=${argument} -P "${CMAKE_CURRENT_SOURCE_DIR}/usage/messages.cmake")
  set_tests_properties("usage: ${page}.md" PROPERTIES LABELS examples TIMEOUT 60)
endforeach()

# Where the site's tools are installed, a public name without a comment and a dead link are errors.
add_test(NAME "site: names and links" COMMAND "${PROJECT_SOURCE_DIR}/scripts/docs" check)
set_tests_properties("site: names and links" PROPERTIES LABELS examples TIMEOUT 300 SKIP_RETURN_CODE 77)

# A page may only start a program that it has built before.
foreach(page_and_program "backends train_digits" "generation train_text" "simulation cubist_plan" "papers cubist_bench"
    "schemes cubist_plan" "tensor_parallelism cubist_plan")
  separate_arguments(page_and_program)
  list(POP_FRONT page_and_program page)
  add_test(NAME "usage: commands of ${page}.md"
    COMMAND "${CMAKE_COMMAND}" "-DPAGE=${docs}/${page}.md" -DPROGRAM=${page_and_program} -P "${CMAKE_CURRENT_SOURCE_DIR}/usage/commands.cmake")
  set_tests_properties("usage: commands of ${page}.md" PROPERTIES LABELS examples)
endforeach()
