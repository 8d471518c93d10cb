// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Readiness comes by nvlfd's own --ready-fd: no look at the file system, no guess at how long a start takes.
#include "support/fabric_daemon.hpp"

#include "support/paths.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace nvlf::test {
namespace {

constexpr std::chrono::seconds start_bound{10};

// To the end of the pipe, or to the bound.
std::string read_all(int fd) {
    const auto end = std::chrono::steady_clock::now() + start_bound;
    std::string text;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
        if (left <= 0 || ::poll(&waited, 1, static_cast<int>(left)) == 0) return text + "(no answer in time)";
        std::array<char, 256> part{};
        const auto got = ::read(fd, part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
}

ChildProcess launch(const std::string& dir, const FabricDaemon::Options& options) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) throw std::system_error{errno, std::generic_category(), "pipe2"};
    ::fcntl(ready[1], F_SETFD, 0); // For the child; closed here right after.
    std::vector<std::string> argv{program("nvlfd"),        "--fabric", options.fabric, "--dir", dir, "--ready-fd",
                                  std::to_string(ready[1])};
    if (!options.topology.empty()) argv.insert(argv.end(), {"--topology", options.topology});
    argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
    auto process = ChildProcess::spawn(std::move(argv));
    ::close(ready[1]);
    const auto verdict = read_all(ready[0]);
    ::close(ready[0]);
    if (verdict != "ready\n") throw std::runtime_error{"nvlfd did not come up: " + verdict + process.output()};
    return process;
}

} // namespace

FabricDaemon::FabricDaemon(Options options) : options_{std::move(options)}, process_{launch(dir_.path(), options_)} {}

void FabricDaemon::start() { process_ = launch(dir_.path(), options_); }

} // namespace nvlf::test
