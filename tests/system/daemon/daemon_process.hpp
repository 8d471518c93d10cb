// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// An nvlfd of one's own in a directory of one's own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "contract_client.hpp"
#include "support/child_process.hpp"
#include "support/paths.hpp"
#include "support/resources.hpp"
#include "support/temp_dir.hpp"

namespace nvlf::test {

using namespace std::chrono_literals;
inline constexpr auto patience = std::chrono::milliseconds{patience_ms};

// Of the event loops, those that this machine allows. Both on a developer's; in a container epoll only.
[[nodiscard]] inline const std::vector<std::string>& event_loops() {
    static const std::vector<std::string> loops = [] {
        const TempDir dir;
        std::vector<std::string> found{"epoll"};
        auto child = ChildProcess::spawn({program("nvlfd"), "--dir", dir.path(), "--event-loop", "uring"});
        if (child.wait_for_output("serves", patience)) found.emplace_back("uring");
        else BOOST_TEST_MESSAGE("io_uring is refused here: " << child.output());
        return found;
    }();
    return loops;
}

class DaemonProcess {
public:
    explicit DaemonProcess(std::vector<std::string> arguments = {}, const std::string& fabric = "default")
        : fabric_{fabric}, child_{start(dir_, std::move(arguments), fabric)} {
        BOOST_REQUIRE_MESSAGE(child_.wait_for_output("serves", patience), child_.output());
    }

    [[nodiscard]] const TempDir& dir() const { return dir_; }
    [[nodiscard]] std::string socket() const { return dir_ / (fabric_ + ".sock"); }
    [[nodiscard]] ContractClient client() const {
        ContractClient client{socket()};
        BOOST_REQUIRE_EQUAL(client.error(), 0);
        return client;
    }
    [[nodiscard]] ChildProcess& process() { return child_; }
    [[nodiscard]] std::size_t descriptors() const { return open_descriptors(child_.pid()); }

private:
    static ChildProcess start(const TempDir& dir, std::vector<std::string> arguments, const std::string& fabric) {
        std::vector<std::string> argv{program("nvlfd"), "--dir", dir.path(), "--fabric", fabric};
        argv.insert(argv.end(), arguments.begin(), arguments.end());
        return ChildProcess::spawn(argv);
    }

    TempDir dir_;
    std::string fabric_;
    ChildProcess child_;
};

} // namespace nvlf::test
