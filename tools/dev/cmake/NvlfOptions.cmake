# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# How NVLF is compiled. Every target links `nvlf_options` privately, so that warnings, sanitizers and hardening are said
# once and never leak into the programs of those who link libnvlf.

option(NVLF_WERROR "Treat compiler warnings as errors" ON)
option(NVLF_FUZZ "Build fuzz targets as libFuzzer programs (needs clang)" OFF)
set(NVLF_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them: 'address,undefined' or 'thread'")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# Assertions stay on in every build. CMake's optimised build types define NDEBUG, which would remove them from nvlfd and
# leave tests that check nothing; code whose assertions would cost too much (the data path) does not write them.
foreach(lang C CXX)
    foreach(type RELEASE RELWITHDEBINFO MINSIZEREL)
        string(REPLACE "-DNDEBUG" "" CMAKE_${lang}_FLAGS_${type} "${CMAKE_${lang}_FLAGS_${type}}")
    endforeach()
endforeach()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # Static libraries here end up inside shared ones.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(NVLF_CCACHE ccache)
    mark_as_advanced(NVLF_CCACHE)
    if(NVLF_CCACHE)
        set(CMAKE_C_COMPILER_LAUNCHER "${NVLF_CCACHE}")
        set(CMAKE_CXX_COMPILER_LAUNCHER "${NVLF_CCACHE}")
    endif()
endif()

add_library(nvlf_options INTERFACE)
target_compile_options(nvlf_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    $<$<BOOL:${NVLF_WERROR}>:-Werror>
    -fstack-protector-strong)
target_link_options(nvlf_options INTERFACE -Wl,--as-needed -Wl,-z,relro -Wl,-z,now)

# Debug builds check the bounds of std::span and friends; release builds cannot afford it between two cache lines.
target_compile_definitions(nvlf_options INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

set(nvlf_sanitizers ${NVLF_SANITIZE})
if(NVLF_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "NVLF_FUZZ needs clang, for libFuzzer; this is ${CMAKE_CXX_COMPILER_ID}. "
            "Use the preset: cmake --preset fuzz")
    endif()
    # Coverage in every object; only the fuzz targets themselves link libFuzzer's main().
    target_compile_options(nvlf_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(nvlf_sanitizers)
    # no-sanitize-recover: a finding must fail the test that met it, not scroll by.
    target_compile_options(nvlf_options INTERFACE
        -fsanitize=${NVLF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(nvlf_options INTERFACE -fsanitize=${NVLF_SANITIZE})
    if("thread" IN_LIST nvlf_sanitizers)
        # GCC rejects std::atomic_thread_fence under -fsanitize=thread (-Wtsan); our own code has none, libraries may.
        target_compile_options(nvlf_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    endif()
else()
    # An undefined symbol is a link error, not a provider that libfabric skips in silence. Sanitizer runtimes are
    # resolved from the executable, which is why only plain builds can ask for it.
    target_link_options(nvlf_options INTERFACE -Wl,-z,defs)
endif()
