// SPDX-License-Identifier: MIT OR GPL-2.0-only
// With nothing running: fi_getinfo looks, and the first domain starts the fabric.
#define BOOST_TEST_MODULE provider_on_demand
#include <dirent.h>

#include <boost/test/unit_test.hpp>

#include "conformance/provider/objects.hpp"
#include "nvlf/nvlf.h"
#include "support/child_process.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {

struct Nothing {
    TempDir dir;
    Nothing() {
        ::setenv("FI_PROVIDER_PATH", provider_dir().c_str(), 1);
        ::setenv("NVLF_DIR", dir.path().c_str(), 1);
        ::setenv("NVLF_NVLFD", program("nvlfd").c_str(), 1);
        ::unsetenv("NVLF_FABRIC");
        ::unsetenv("NVLF_DEVICE");
        ::unsetenv("NVLF_TOPOLOGY");
        ::unsetenv("NVLF_ON_DEMAND");
    }
    [[nodiscard]] bool socket_is_there() const { return ::access((dir / "default.sock").c_str(), F_OK) == 0; }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(getinfo_starts_nothing_and_the_first_domain_starts_a_fabric_that_ends_after_the_last, Nothing) {
    InfoPtr list;
    BOOST_REQUIRE(get_info(list) == 0);
    BOOST_TEST(list->fabric_attr->name == std::string{"nvlf:default"});
    BOOST_TEST(!socket_is_there());
    {
        const Objects first;
        BOOST_TEST(socket_is_there());
        const Objects second; // Of the same fabric.
    }
    BOOST_TEST(eventually([this] { return !socket_is_there(); }, 15s), "the fabric outlives its last client");
}

BOOST_FIXTURE_TEST_CASE(an_unknown_topology_has_no_devices, Nothing) {
    ::setenv("NVLF_TOPOLOGY", "no-such-preset", 1);
    InfoPtr list;
    BOOST_TEST(get_info(list) == -FI_ENODATA);
    ::unsetenv("NVLF_TOPOLOGY");
}
