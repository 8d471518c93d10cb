// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Running another program, for the things that this one may not know itself: what a topology file means is nvlfd's.
#pragma once

#include <string>
#include <vector>

#include <signal.h>

namespace nvlf::cli {

struct Finished {
    int exit_code = 0; // 128 + signal number where a signal ended it, as a shell says.
    std::string out;
    std::string err;
};

// Runs nvlfd to its end. stdin is /dev/null; `out` is as it came, `err` without the last newline and without "nvlfd: " at
// the head of a line. Failure when it cannot be started.
[[nodiscard]] Finished run_and_read(const std::vector<std::string>& argv);

// So that no descriptor of ours gets the number of a standard stream which the caller closed. Call first of all.
void open_standard_streams();

// While one lives, SIGHUP, SIGINT and SIGTERM wait; what we started does not have them blocked. For work that must be
// finished or undone, but not left in the middle.
class HeldSignals {
public:
    HeldSignals();
    ~HeldSignals(); // Whatever came meanwhile takes its effect here.
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    [[nodiscard]] bool any() const; // Has one come?

private:
    sigset_t before_{};
};

// Runs argv (nvlfd --daemonize ...) with `--ready-fd` added, until it says that it serves or that it will not. nvlfd
// writes "ready" to that descriptor, or a sentence for people; it is at its end without a word when nvlfd crashed.
struct Started {
    bool ready = false;
    int exit_code = 0; // Of the process that was started, whose daemon is a child of it.
    std::string words; // Why not.
};
[[nodiscard]] Started start_daemon(std::vector<std::string> argv);

// Replaces this program. Returns errno when it cannot; `search` looks in PATH for a name without a slash.
[[nodiscard]] int replace_by(const std::vector<std::string>& argv, bool search);

} // namespace nvlf::cli
