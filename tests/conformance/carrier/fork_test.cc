// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A fabric belongs to the process that opened it; a forked child neither disturbs it nor is disturbed.
#define BOOST_TEST_MODULE carrier_fork
#include <boost/test/unit_test.hpp>

#include "fabric.hpp"

using namespace nvlf::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(a_child_is_refused_keeps_the_memory_and_may_open_anew) {
    const FabricDaemon daemon;
    Fabric fabric = open_fabric(daemon);
    Mem mem = alloc(fabric);
    auto* ptr = static_cast<char*>(map(mem));
    Ep ep = publish(fabric);
    auto child = ChildProcess::fork([&] {
        nvlf_ioc_info info{};
        nvlf_mem* none = nullptr;
        if (nvlf_get_info(fabric.get(), &info) != -EOWNERDEAD) return 1;
        if (nvlf_mem_alloc(fabric.get(), 0, 1, 0, &none) != -EOWNERDEAD) return 2;
        if (nvlf_alive(fabric.get()) != 0) return 3;
        nvlf_ep_arm(ep.get()); // The parent's sleep is not the child's affair.
        *ptr = 'c';
        if (nvlf_ep_put(ep.release()) != 0 || nvlf_mem_put(mem.release()) != 0 || nvlf_close(fabric.release()) != 0)
            return 4;
        const Fabric own = open_fabric(daemon);
        const Mem other = alloc(own);
        *static_cast<char*>(map(other)) = 'x';
        return nvlf_alive(own.get()) == 1 ? 0 : 5;
    });
    BOOST_TEST(child.wait(20s).exited_with(0), child.output());
    BOOST_TEST(*ptr == 'c');
    BOOST_TEST(nvlf_ep_region(ep.get())->armed % 2 == 0U);
    nvlf_ioc_info info{};
    BOOST_TEST(nvlf_get_info(fabric.get(), &info) == 0);
    BOOST_TEST(info.endpoints == 1U);
    BOOST_TEST(info.allocations == 2U); // The memory and the endpoint's region.
}
