// SPDX-License-Identifier: MIT OR GPL-2.0-only
// objects.hpp - a fabric and a domain, for tests of what is opened on them.
//
// `Fabric` is for BOOST_TEST_GLOBAL_FIXTURE: a daemon of the test's own, and the environment that leads libfabric's
// provider to it, set before libfabric loads providers (at the first call).
#pragma once

#include <rdma/fi_eq.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "conformance/provider/two_endpoints.hpp"
#include "support/fabric_daemon.hpp"
#include "support/paths.hpp"

namespace nvlf::test {

struct RunningFabric {
    RunningFabric() {
        skip_what_is_not_claimed();
        ::setenv("FI_PROVIDER_PATH", provider_dir().c_str(), 1);
        ::setenv("NVLF_DIR", daemon.dir().c_str(), 1);
        ::setenv("NVLF_FABRIC", daemon.fabric().c_str(), 1);
        ::setenv("NVLF_ON_DEMAND", "0", 1);
        ::unsetenv("NVLF_DEVICE");
    }
    FabricDaemon daemon;
};

using Hints = std::function<void(fi_info&)>;
constexpr std::uint32_t api_now = FI_VERSION(1, 17);

// fi_getinfo of this provider alone; what it answers, and the list.
inline int get_info(InfoPtr& ret_info, const Hints& set = {}, const char* node = nullptr, const char* service = nullptr,
                    std::uint64_t flags = 0, std::uint32_t version = api_now) {
    const InfoPtr hints{fi_allocinfo()};
    hints->fabric_attr->prov_name = ::strdup(provider_name());
    if (set) set(*hints);
    fi_info* found = nullptr;
    const int ret = fi_getinfo(version, node, service, flags, hints.get(), &found);
    ret_info.reset(ret == 0 ? found : nullptr);
    return ret;
}

inline InfoPtr info_for(const Hints& set = {}) {
    InfoPtr info;
    check(get_info(info, set), "fi_getinfo");
    return info;
}

// A domain on the first device that the hints lead to.
struct Objects {
    explicit Objects(const Hints& set = {}) : info{info_for(set)} {
        fid_fabric* f = nullptr;
        check(fi_fabric(info->fabric_attr, &f, nullptr), "fi_fabric");
        fabric.reset(f);
        fid_domain* d = nullptr;
        check(fi_domain(f, info.get(), &d, nullptr), "fi_domain");
        domain.reset(d);
    }

    InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_domain> domain;
};

} // namespace nvlf::test
