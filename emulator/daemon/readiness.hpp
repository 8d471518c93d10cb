// SPDX-License-Identifier: MIT OR GPL-2.0-only
// readiness.hpp - telling whoever started us that we serve, or why we do not.
//
// There are four who may wait: a person at the terminal, a parent that gave us a descriptor (--ready-fd), the process that
// forked us into the background (--daemonize), and systemd (NOTIFY_SOCKET). A failure is told once, to the nearest.
#pragma once

#include <string_view>

#include "base/fd.hpp"

namespace nvlf::daemon {

class Readiness {
public:
    // `waiter`: takes "ready\n" or one line of failure, and is closed then. May be none.
    explicit Readiness(Fd waiter) : waiter_{std::move(waiter)} {}

    void ready();
    void failed(std::string_view why);

    // Forks. The parent does not come back: it waits, prints what the child says and exits by it. The child comes back in
    // a session of its own, its standard descriptors on /dev/null, and tells the parent, and whom it had to tell before.
    // False when it could not be done.
    [[nodiscard]] bool go_to_background();

private:
    Fd waiter_;
    Fd parent_;
};

} // namespace nvlf::daemon
