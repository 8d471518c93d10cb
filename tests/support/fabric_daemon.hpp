// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A fabric for one test: a real nvlfd in a directory of its own, serving when the constructor returns and gone with the
// object. The test's own NVLF_* variables are not touched; whoever opens the fabric names dir() and fabric().
#pragma once

#include "support/child_process.hpp"
#include "support/temp_dir.hpp"

#include <string>
#include <vector>

namespace nvlf::test {

class FabricDaemon {
public:
    struct Options {
        std::string fabric = "t";
        std::string topology{};               // Empty: nvlfd's default.
        std::vector<std::string> arguments{}; // More for nvlfd's command line.
    };

    // Throws with nvlfd's own words when it does not come up within 10 s.
    FabricDaemon() : FabricDaemon(Options{}) {}
    explicit FabricDaemon(Options options);

    [[nodiscard]] const std::string& dir() const noexcept { return dir_.path(); }
    [[nodiscard]] const std::string& fabric() const noexcept { return options_.fabric; }
    [[nodiscard]] ChildProcess& process() noexcept { return process_; }

    void kill() noexcept { process_.kill(); } // SIGKILL, and reaps.
    void start();                             // Again, after its end.

private:
    TempDir dir_;
    Options options_;
    ChildProcess process_;
};

} // namespace nvlf::test
