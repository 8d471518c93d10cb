# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Where things go on an installed system, and how they find each other there. Components write their own install()
# lines with these directories; the package files (pkg-config, CMake) are here because they describe the whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# libfabric loads providers from <its own libdir>/libfabric, or from where FI_PROVIDER_PATH points.
set(NVLF_INSTALL_PROVIDERDIR "${CMAKE_INSTALL_LIBDIR}/libfabric")

# Relative run paths: an installed tree works wherever it is unpacked, without ldconfig or LD_LIBRARY_PATH.
file(RELATIVE_PATH nvlf_bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/..:$ORIGIN/${nvlf_bin_to_lib}")
