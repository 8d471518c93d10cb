# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# How a test joins the build. One executable a file, so that a crash costs one file's tests and a rebuild costs one
# link; the kind is the ctest label, and decides nothing else.
#
#   nvlf_test(NAME lane_test KIND unit SOURCES lane_test.cc LIBS nvlf_base
#             [TIMEOUT 60]          seconds; the whole executable
#             [NEEDS nvlfd nvlf_fi] targets that it runs or loads, but does not link
#             [SERIAL]              nothing else runs beside it: for bounds on time
#             [ARGS ...] [ENVIRONMENT A=b ...])
#
# The first source file says `#define BOOST_TEST_MODULE name` before <boost/test/unit_test.hpp>. Every test can use
# tests/support ("support/temp_dir.hpp" and friends).
#
#   nvlf_test_script(NAME containers KIND containers COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/run [TIMEOUT ..] [SERIAL] ...)
#
# A script skips itself by exit code 77, after a line which says why.
#
#   nvlf_fuzz(NAME lane_consumer SOURCES lane_consumer.cc LIBS nvlf_base CORPUS corpus/lane_consumer)
#
# The source defines LLVMFuzzerTestOneInput. In the fuzz preset it becomes a libFuzzer program that runs for
# NVLF_FUZZ_SECONDS; in every other build a replay runner feeds it the corpus and seeded mutations of it, so that a
# regression shows in `make test` without clang.

set(NVLF_FUZZ_SECONDS 10 CACHE STRING "How long each fuzz target runs under ctest in the fuzz preset")

function(nvlf_test_properties test)
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "KIND;TIMEOUT" "ENVIRONMENT")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    if(NVLF_SANITIZE)
        math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3") # The usual price of instrumentation.
    endif()
    set_tests_properties(${test} PROPERTIES
        LABELS ${arg_KIND}
        TIMEOUT ${arg_TIMEOUT}
        RUN_SERIAL $<BOOL:${arg_SERIAL}>
        SKIP_RETURN_CODE 77
        # A crash is to look like one, to ctest and to sanitizers: Boost.Test must not catch signals (it would also
        # take a child's end for an error of the test).
        ENVIRONMENT "BOOST_TEST_CATCH_SYSTEM_ERRORS=no;ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=second_deadlock_stack=1;${arg_ENVIRONMENT}")
endfunction()

function(nvlf_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;KIND;TIMEOUT" "SOURCES;LIBS;NEEDS;ARGS;ENVIRONMENT")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_KIND OR NOT arg_SOURCES)
        message(FATAL_ERROR "nvlf_test(${ARGV}): wants NAME, KIND and SOURCES; not understood: '${arg_UNPARSED_ARGUMENTS}'")
    endif()
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} nvlf_test_support Boost::unit_test_framework nvlf_options)
    set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    if(arg_NEEDS)
        add_dependencies(${arg_NAME} ${arg_NEEDS})
    endif()
    add_test(NAME ${arg_KIND}.${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGS})
    if(arg_SERIAL)
        set(serial SERIAL)
    endif()
    nvlf_test_properties(${arg_KIND}.${arg_NAME} KIND ${arg_KIND} TIMEOUT ${arg_TIMEOUT} ENVIRONMENT ${arg_ENVIRONMENT} ${serial})
endfunction()

function(nvlf_test_script)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;KIND;TIMEOUT" "COMMAND;ENVIRONMENT")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_KIND OR NOT arg_COMMAND)
        message(FATAL_ERROR "nvlf_test_script(${ARGV}): wants NAME, KIND and COMMAND; not understood: '${arg_UNPARSED_ARGUMENTS}'")
    endif()
    add_test(NAME ${arg_KIND}.${arg_NAME} COMMAND ${arg_COMMAND})
    if(arg_SERIAL)
        set(serial SERIAL)
    endif()
    nvlf_test_properties(${arg_KIND}.${arg_NAME} KIND ${arg_KIND} TIMEOUT ${arg_TIMEOUT} ENVIRONMENT ${arg_ENVIRONMENT} ${serial})
endfunction()

function(nvlf_fuzz)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;LIBS")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_CORPUS)
        message(FATAL_ERROR "nvlf_fuzz(${ARGV}): wants NAME, SOURCES and CORPUS; not understood: '${arg_UNPARSED_ARGUMENTS}'")
    endif()
    set(target fuzz_${arg_NAME})
    cmake_path(ABSOLUTE_PATH arg_CORPUS BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE ${arg_LIBS} nvlf_options)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    if(NVLF_FUZZ)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        # libFuzzer writes what it finds to the first folder: one in the build tree, never the sources.
        set(found "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.corpus")
        file(MAKE_DIRECTORY "${found}")
        add_test(NAME fuzz.${arg_NAME} COMMAND ${target} -max_total_time=${NVLF_FUZZ_SECONDS} -timeout=10
            -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}."
            "${found}" "${arg_CORPUS}")
        math(EXPR timeout "${NVLF_FUZZ_SECONDS} + 60")
    else()
        target_link_libraries(${target} PRIVATE nvlf_fuzz_replay)
        add_test(NAME fuzz.${arg_NAME} COMMAND ${target} --seconds=2 "${arg_CORPUS}")
        set(timeout 60)
    endif()
    nvlf_test_properties(fuzz.${arg_NAME} KIND fuzz TIMEOUT ${timeout})
endfunction()
