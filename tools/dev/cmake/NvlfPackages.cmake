# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Everything that NVLF takes from the system, found once, here, so that every component sees the same target. Who may
# link which is the layer table's business, not this file's.
#
#   target                        Debian package         used by
#   Threads::Threads              libc6-dev              userspace, tests
#   PkgConfig::libfabric          libfabric-dev          userspace/provider, tools/diag, tests
#   PkgConfig::liburing           liburing-dev           emulator/daemon
#   PkgConfig::hwloc              libhwloc-dev           emulator/daemon, tools/diag
#   (headers only)                libtomlplusplus-dev    emulator/model, in its loader
#   CLI11::CLI11                  libcli11-dev           tools
#   fmt::fmt                      libfmt-dev             tools
#   nlohmann_json::nlohmann_json  nlohmann-json3-dev     tools
#   Boost::unit_test_framework    libboost-test-dev      tests

set(CMAKE_THREAD_LIBS_INIT_PREFER_PTHREAD ON)
find_package(Threads REQUIRED)
find_package(PkgConfig)
if(NOT PkgConfig_FOUND)
    message(FATAL_ERROR "pkg-config is missing: run `make deps`")
endif()

set(nvlf_missing "")
foreach(module libfabric>=1.17 liburing>=2.3 hwloc>=2.9 tomlplusplus>=3.3)
    string(REGEX REPLACE "[<>=].*" "" name ${module})
    pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(NOT ${name}_FOUND)
        list(APPEND nvlf_missing ${module})
    endif()
endforeach()

# A find_package() in its own scope would hide its targets from the components, hence no function here.
foreach(package CLI11 fmt nlohmann_json)
    find_package(${package} QUIET CONFIG)
    if(NOT ${package}_FOUND)
        list(APPEND nvlf_missing ${package})
    endif()
endforeach()

if(NVLF_TESTS OR NOT DEFINED NVLF_TESTS)
    set(Boost_NO_WARN_NEW_VERSIONS ON)
    find_package(Boost 1.74 QUIET COMPONENTS unit_test_framework)
    if(NOT TARGET Boost::unit_test_framework)
        list(APPEND nvlf_missing "boost unit_test_framework>=1.74")
    endif()
endif()

if(nvlf_missing)
    list(JOIN nvlf_missing ", " nvlf_missing)
    message(FATAL_ERROR "Not found: ${nvlf_missing}. Run `make deps`, which installs the Debian packages or prints the "
        "line that does.")
endif()
