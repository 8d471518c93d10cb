// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The programs of these tests, started on a fabric: the stock fi_pingpong under `nvlf run`, and our own pingpong_peer. And
// what a campaign of kills needs beside: seeded randomness, and a summary of delays.
#pragma once

#include "support/child_process.hpp"
#include "support/paths.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nvlf::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// For what takes milliseconds, on a machine that is busy or in a program that is instrumented.
inline constexpr auto plenty = std::chrono::seconds{30};

[[nodiscard]] inline bool instrumented() { return address_sanitizer() || thread_sanitizer(); }

// Where a process finds its fabric. Nothing of the person's own settings comes through.
struct Place {
    std::string dir;
    std::string fabric;
    std::string device{}; // Empty: whichever.
    bool on_demand = false;

    [[nodiscard]] std::vector<std::string> environment() const {
        std::vector<std::string> all{"NVLF_TOPOLOGY", "NVLF_DEVICE", "NVLF_NVLFD", "FI_PROVIDER", "FI_LOG_LEVEL"};
        for (auto& variable : stock_program_environment()) all.push_back(std::move(variable));
        // Libraries that libfabric brings along (psm, psm2) catch fatal signals, write a file and exit: a crash would look
        // like an error that was handled.
        all.insert(all.end(), {"IPATH_NO_BACKTRACE=1", "HFI_NO_BACKTRACE=1"});
        all.push_back("NVLF_DIR=" + dir);
        all.push_back("NVLF_FABRIC=" + fabric);
        all.push_back(on_demand ? "NVLF_ON_DEMAND" : "NVLF_ON_DEMAND=0");
        return all;
    }
    // `nvlf run ... --`
    [[nodiscard]] std::vector<std::string> run(const std::vector<std::string>& command) const {
        std::vector<std::string> argv{program("nvlf"), "run", "--fabric", fabric, "--dir", dir};
        if (!device.empty()) argv.insert(argv.end(), {"--device", device});
        argv.emplace_back("--");
        argv.insert(argv.end(), command.begin(), command.end());
        return argv;
    }
    [[nodiscard]] Completed nvlf(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), program("nvlf"));
        arguments.insert(arguments.end(), {"--fabric", fabric, "--dir", dir});
        return test::run(std::move(arguments), plenty, {.environment = environment(), .directory = {}});
    }
};

// ---- Our own peer ----------------------------------------------------------------------------------------------------

// They lie beside the test that asks.
[[nodiscard]] inline std::string peer_program(const char* name = "pingpong_peer") {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

[[nodiscard]] inline ChildProcess start_peer(const Place& place, std::vector<std::string> arguments,
                                             const std::vector<std::string>& variables = {},
                                             const std::string& peer = peer_program()) {
    arguments.insert(arguments.begin(), peer);
    auto environment = place.environment();
    // It is instrumented as the provider is: it needs no foreign runtime, and its leaks are ours.
    environment.emplace_back("LD_PRELOAD");
    if (const char* options = std::getenv("ASAN_OPTIONS"); options != nullptr)
        environment.push_back("ASAN_OPTIONS=" + std::string{options});
    if (!place.device.empty()) environment.push_back("NVLF_DEVICE=" + place.device);
    environment.insert(environment.end(), variables.begin(), variables.end());
    return ChildProcess::spawn(std::move(arguments), {.environment = std::move(environment), .directory = {}});
}

// When it said the last line that begins with `words`; nothing when it did not.
[[nodiscard]] inline std::optional<Clock::time_point> said_at(const ChildProcess& child, std::string_view words) {
    std::istringstream lines{child.output()};
    std::optional<Clock::time_point> found;
    for (std::string line; std::getline(lines, line);) {
        const auto at = line.rfind(" at ");
        if (line.rfind(words, 0) != 0 || at == std::string::npos) continue;
        std::int64_t ns = 0;
        std::from_chars(line.data() + at + 4, line.data() + line.size(), ns);
        found = Clock::time_point{std::chrono::nanoseconds{ns}};
    }
    return found;
}

// ---- The stock fi_pingpong -------------------------------------------------------------------------------------------

[[nodiscard]] inline bool have_fi_pingpong() { return std::system("command -v fi_pingpong >/dev/null") == 0; }

// Is there a socket of that state (as in /proc/net/tcp: 0A listens, 01 is connected) on a local port of this host?
[[nodiscard]] inline bool tcp_port_is(std::uint16_t port, std::string_view state) {
    std::ostringstream wanted;
    wanted << ':' << std::uppercase << std::hex << std::setw(4) << std::setfill('0') << port;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file{table};
        for (std::string line; std::getline(file, line);) {
            std::istringstream fields{line};
            std::string number, local, remote, its_state;
            fields >> number >> local >> remote >> its_state;
            if (its_state == state && local.size() > 5 && local.substr(local.size() - 5) == wanted.str()) return true;
        }
    }
    return false;
}

// One that nobody listens on, below the range from which the kernel gives ports to others.
[[nodiscard]] inline std::uint16_t free_port() {
    static auto next = static_cast<std::uint16_t>(10000 + ::getpid() % 20000);
    for (int tries = 0; tries < 1000; ++tries) {
        const std::uint16_t port = next++;
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        const bool free = fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        ::close(fd);
        if (free) return port;
    }
    throw std::runtime_error{"no free TCP port in 1000"};
}

// A pair on one host. The client starts once the server listens: fi_pingpong's own connect does not try again.
struct StockPingpong {
    StockPingpong(const Place& server_place, const Place& client_place, const std::vector<std::string>& options)
        : port{free_port()},
          server{start(server_place, "-B", options, {})},
          listened{eventually([this] { return tcp_port_is(port, "0A") || !server.wait(0ms).running(); }, plenty)},
          client{start(client_place, "-P", options, {"127.0.0.1"})} {}

    // Both ends have connected their control channels: from here on they open the fabric, then use it.
    [[nodiscard]] bool connected() {
        return eventually([this] { return tcp_port_is(port, "01") || !client.wait(0ms).running(); }, plenty) &&
               client.wait(0ms).running();
    }

    std::uint16_t port;
    ChildProcess server;
    bool listened;
    ChildProcess client;

private:
    [[nodiscard]] ChildProcess start(const Place& place, const char* port_option,
                                     const std::vector<std::string>& options,
                                     const std::vector<std::string>& address) const {
        std::vector<std::string> command{"fi_pingpong", "-e", "rdm", "-p", "nvlf", port_option, std::to_string(port)};
        command.insert(command.end(), options.begin(), options.end());
        command.insert(command.end(), address.begin(), address.end());
        // It writes to its control channel without MSG_NOSIGNAL: a peer killed just before costs it a SIGPIPE, which would
        // say nothing about us. Ignored, so that a death by signal means what it says.
        std::vector<std::string> argv{"env", "--ignore-signal=PIPE"};
        for (auto& word : place.run(command)) argv.push_back(std::move(word));
        return ChildProcess::spawn(std::move(argv), {.environment = place.environment(), .directory = {}});
    }
};

// ---- Campaigns -------------------------------------------------------------------------------------------------------

// How often a kill is repeated. The default keeps a case within seconds; NVLF_KILL_ROUNDS=100 is the campaign.
[[nodiscard]] inline int kill_rounds() {
    const char* text = std::getenv("NVLF_KILL_ROUNDS");
    const int rounds = text != nullptr ? std::atoi(text) : 0;
    return rounds > 0 ? std::min(rounds, 100'000) : 5;
}

// Random moments, repeatable: NVLF_KILL_SEED=<what was printed>.
class Moments {
public:
    explicit Moments(const char* what) : seed_{seed_from_environment()}, random_{seed_} {
        std::cout << what << ": NVLF_KILL_SEED=" << seed_ << " NVLF_KILL_ROUNDS=" << kill_rounds() << '\n';
    }
    [[nodiscard]] std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
    // Runs it for a random time below the bound, less if it ends before.
    void run_for_a_while(ChildProcess& child, std::chrono::milliseconds bound) {
        child.wait(std::chrono::milliseconds{below(static_cast<std::uint32_t>(bound.count()))});
    }

private:
    static std::uint64_t seed_from_environment() {
        if (const char* text = std::getenv("NVLF_KILL_SEED"); text != nullptr) return std::strtoull(text, nullptr, 10);
        return std::random_device{}();
    }
    std::uint64_t seed_;
    std::mt19937_64 random_;
};

class Delays {
public:
    void add(Clock::duration delay) { all_.push_back(std::chrono::duration<double, std::milli>{delay}.count()); }
    [[nodiscard]] double percentile(double p) {
        if (all_.empty()) return 0;
        std::sort(all_.begin(), all_.end());
        const auto last = static_cast<double>(all_.size() - 1);
        return all_[static_cast<std::size_t>(p / 100 * last + 0.5)];
    }
    [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
    void print(const char* what) {
        std::cout << what << ": n " << all_.size() << std::fixed << std::setprecision(2) << ", p50 " << percentile(50)
                  << " ms, p99 " << percentile(99) << " ms, max " << percentile(100) << " ms\n";
    }

private:
    std::vector<double> all_; // Milliseconds.
};

} // namespace nvlf::test
