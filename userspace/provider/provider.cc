// SPDX-License-Identifier: MIT OR GPL-2.0-only
// provider.cc - how libfabric finds us: the one symbol that the DSO exports.
//
// libfabric calls it once, under its own lock, and may call cleanup and unload us at exit; so nothing is started here
// and nothing depends on destructors.
#include "provider.hpp"

#include "fabric.hpp"
#include "info.hpp"
#include "nvlf/nvlf.h"
#include "params.hpp"

namespace nvlf::ofi {

static void cleanup() {}

// The context belongs to the core and starts as zero.
fi_provider provider{
    .version = FI_VERSION(NVLF_VERSION_MAJOR, NVLF_VERSION_MINOR),
    .fi_version = 0,
    .context = {},
    .name = "nvlf",
    .getinfo = getinfo,
    .fabric = fabric_open,
    .cleanup = cleanup,
};

} // namespace nvlf::ofi

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini(void) {
    // The version of the libfabric that loads us, not of the one that we were built with: it skips providers that
    // implement less than the application asks for. What depends on the version goes by fid_fabric::api_version.
    nvlf::ofi::provider.fi_version = fi_version();
    nvlf::ofi::params_init();
    return &nvlf::ofi::provider;
}
