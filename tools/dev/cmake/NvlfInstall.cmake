# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Where things go on an installed system, and how they find each other there. What others build on is here rather than
# with its component, because a package is one thing: its parts must agree about folders, versions and names. A component
# installs by itself what only its own programs read.
#
#   bin/nvlfd bin/nvlf                      the daemon and the command line
#   lib/libnvlf.so.0                        the driver (libdir: lib, or Debian's multiarch folder if the prefix is /usr)
#   lib/libfabric/libnvlf-fi.so             the provider: libfabric looks in its own libdir, or in FI_PROVIDER_PATH
#   include/nvlf/*.h                        the public API, and the contract that it includes
#   lib/pkgconfig, lib/cmake/nvlf           for those who build on libnvlf
#   lib/systemd/user/nvlfd.service          a fabric for the length of a login
#   share/nvlf                              topologies, and the state images of the presets
#   share/man, share/doc/nvlf               the manual and the licence
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(NVLF_INSTALL_PROVIDERDIR "${CMAKE_INSTALL_LIBDIR}/libfabric")

# Relative run paths: an installed tree works wherever it is unpacked, without ldconfig or LD_LIBRARY_PATH. In order: the
# library's own folder, the provider's way up, a program's way across.
file(RELATIVE_PATH nvlf_bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH "$ORIGIN:$ORIGIN/..:$ORIGIN/${nvlf_bin_to_lib}")

# Call when all components are defined.
function(nvlf_install_all)
    # Until 1.0 every minor version may change the ABI of what it adds; so.0 is one promise: what 0.1 exports stays.
    set_target_properties(nvlf PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    set_target_properties(nvlf_uapi PROPERTIES EXPORT_NAME uapi)
    install(TARGETS nvlf nvlf_uapi EXPORT nvlfTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS nvlf_fi LIBRARY DESTINATION "${NVLF_INSTALL_PROVIDERDIR}")
    install(TARGETS nvlf_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

    install(DIRECTORY "${PROJECT_SOURCE_DIR}/kernel/include/uapi/nvlf" "${PROJECT_SOURCE_DIR}/userspace/include/nvlf"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")

    set(cmakedir "${CMAKE_INSTALL_LIBDIR}/cmake/nvlf")
    install(EXPORT nvlfTargets NAMESPACE nvlf:: DESTINATION "${cmakedir}")
    configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/dev/cmake/nvlfConfig.cmake.in"
        "${PROJECT_BINARY_DIR}/nvlfConfig.cmake" INSTALL_DESTINATION "${cmakedir}" NO_SET_AND_CHECK_MACRO)
    # Below 1.0 a minor version may break source compatibility, so a consumer of 0.1 is not given 0.2.
    write_basic_package_version_file("${PROJECT_BINARY_DIR}/nvlfConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
    install(FILES "${PROJECT_BINARY_DIR}/nvlfConfig.cmake" "${PROJECT_BINARY_DIR}/nvlfConfigVersion.cmake"
        DESTINATION "${cmakedir}")

    # ${pcfiledir} keeps the file true when the tree is moved, or staged under DESTDIR.
    file(RELATIVE_PATH NVLF_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" NVLF_PC_PREFIX "${NVLF_PC_PREFIX}")
    configure_file("${PROJECT_SOURCE_DIR}/tools/dev/cmake/nvlf.pc.in" "${PROJECT_BINARY_DIR}/nvlf.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/nvlf.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

    if(EXISTS "${PROJECT_SOURCE_DIR}/emulator/daemon/nvlfd.service.in")
        configure_file("${PROJECT_SOURCE_DIR}/emulator/daemon/nvlfd.service.in" "${PROJECT_BINARY_DIR}/nvlfd.service" @ONLY)
        # systemd looks in lib whatever the libdir is called.
        install(FILES "${PROJECT_BINARY_DIR}/nvlfd.service" DESTINATION lib/systemd/user)
    endif()

    foreach(section 1 3 5 7 8)
        install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}"
            FILES_MATCHING PATTERN "*.${section}")
    endforeach()
    install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endfunction()
