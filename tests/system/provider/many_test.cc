// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// More processes than processors, all sending to all: whoever polls must let those run for whom it waits.
#define BOOST_TEST_MODULE many
#include <boost/test/unit_test.hpp>

#include "processes.hpp"
#include "support/fabric_daemon.hpp"
#include "support/resources.hpp"

using namespace nvlf::test;

namespace {

void all_to_all(std::size_t processes, std::size_t rounds) {
    FabricDaemon daemon;
    const auto before = open_descriptors(daemon.process().pid());
    const auto started = Clock::now();
    {
        std::vector<ChildProcess> peers;
        for (std::size_t i = 0; i < processes; ++i)
            peers.push_back(start_peer({daemon.dir(), daemon.fabric()}, {"all", "p", std::to_string(processes),
                                                                         std::to_string(i), std::to_string(rounds)}));
        for (auto& peer : peers) {
            const auto status = peer.wait(2 * plenty);
            BOOST_TEST(status.exited_with(0), status << '\n' << peer.output());
        }
    }
    std::cout << processes << " processes, " << rounds
              << " rounds of all to all: " << std::chrono::duration<double>{Clock::now() - started}.count() << " s\n";
    BOOST_TEST(eventually([&] { return open_descriptors(daemon.process().pid()) == before; }, plenty));
}

} // namespace

BOOST_AUTO_TEST_CASE(four_processes_send_all_to_all_and_finish) { all_to_all(4, 500); }
BOOST_AUTO_TEST_CASE(sixteen_processes_send_all_to_all_and_finish) { all_to_all(16, 50); }
