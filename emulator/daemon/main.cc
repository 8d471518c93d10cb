// SPDX-License-Identifier: MIT OR GPL-2.0-only
// nvlfd - the emulator daemon. main() reads as its table of contents: what is wanted, get ready to fail loudly, claim the
// name, make the fabric, serve. Whatever can go wrong goes wrong before "ready", with one line that says what.
#include <fcntl.h>
#include <grp.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "daemon/listener.hpp"
#include "daemon/options.hpp"
#include "daemon/readiness.hpp"
#include "daemon/service.hpp"
#include "daemon/topology_source.hpp"
#include "model/presets.hpp"

namespace nvlf::daemon {
namespace {

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

// A failure of the start, for main() to tell.
struct Failure {
    std::string why;
    int code = exit_failed;
    std::vector<std::string> more{}; // Further mistakes, for whoever reads stderr.
};

std::string text(Errno error) { return ::strerrordesc_np(error.value()); }

model::Topology load(const std::string& name) {
    std::vector<std::string> mistakes;
    auto topology = find_topology(name, mistakes);
    if (topology) return std::move(*topology);
    // All of them for the person, the first for whoever shows one line.
    throw Failure{mistakes.front(), exit_usage, {mistakes.begin() + 1, mistakes.end()}};
}

void dump_state(const std::string& name) {
    const std::vector<std::byte> image = state_file_image(load(name));
    if (::isatty(STDOUT_FILENO) != 0)
        throw Failure{"--dump-state writes binary data: redirect it to a file", exit_usage};
    std::size_t written = 0;
    while (written < image.size()) {
        const ssize_t n = ::write(STDOUT_FILENO, image.data() + written, image.size() - written);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw Failure{"cannot write the state image: " + text(last_errno())};
        written += static_cast<std::size_t>(n);
    }
}

void list_topologies() {
    for (const std::string_view name : model::preset_names())
        std::printf("%s\t%s\n", std::string{name}.c_str(), load(std::string{name}).description.c_str());
    if (std::fflush(stdout) != 0) throw Failure{"cannot write the list of topologies: " + text(last_errno())};
}

Errno random_bytes(std::span<std::byte> out) {
    while (!out.empty()) {
        const ssize_t got = ::getrandom(out.data(), out.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return last_errno();
        out = out.subspan(static_cast<std::size_t>(got));
    }
    return Errno{};
}

// A background daemon must not keep open what its starter happened to have open: somebody may wait for its end.
void close_inherited(std::optional<int> keep) {
    const unsigned first = STDERR_FILENO + 1;
    const unsigned kept = keep && *keep > STDERR_FILENO ? static_cast<unsigned>(*keep) : first - 1;
    if (kept > first) ::close_range(first, kept - 1, 0);
    ::close_range(kept + 1, ~0U, 0);
}

std::optional<gid_t> find_group(const std::string& name) {
    if (name.empty()) return std::nullopt;
    const group* entry = ::getgrnam(name.c_str());
    if (entry == nullptr) throw Failure{"there is no group '" + name + '\'', exit_usage};
    return entry->gr_gid;
}

// Blocked, so that they come by the descriptor only.
Fd open_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    // Both say with an errno as well what they would kill us for: a reader that is gone, a file size limit.
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    Fd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (!fd) throw Failure{"cannot make a signalfd: " + text(last_errno())};
    return fd;
}

// All the descriptors we may have; half of them, at most, for one client.
std::uint32_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Limits{}.descriptors_per_file;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit); // Where it is refused, what is there has to do.
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<std::uint32_t>(std::clamp<rlim_t>(limit.rlim_cur / 2, 16, 1U << 20));
}

std::uint64_t host_memory() {
    const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 1L));
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / NVLF_PAGE_SIZE * NVLF_PAGE_SIZE;
}

std::uint64_t epoch_now() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
}

Fd open_log(const Options& options) {
    if (options.log_file.empty()) return Fd{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
    Fd fd{::open(options.log_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)};
    if (!fd) throw Failure{"cannot open the log file " + options.log_file + ": " + text(last_errno())};
    return fd;
}

std::unique_ptr<Loop> make_loop(LoopChoice choice, Log& log) {
    if (choice != LoopChoice::epoll) {
        auto loop = make_uring_loop();
        if (loop) return std::move(*loop);
        if (choice == LoopChoice::uring) throw Failure{"io_uring is refused here: " + text(loop.error())};
        log.info("io_uring is refused here (" + text(loop.error()) + "): epoll serves");
    }
    auto loop = make_epoll_loop();
    if (!loop) throw Failure{"cannot make an epoll descriptor: " + text(loop.error())};
    return std::move(*loop);
}

std::unique_ptr<Server> make_server(const Options& options, model::Topology topology, std::uint32_t descriptors,
                                    Log& log) {
    Server::Config config;
    config.fabric = options.fabric;
    config.topology = std::move(topology);
    config.limits.quota_bytes = options.quota.value_or(host_memory());
    config.limits.descriptors_per_file = descriptors;
    config.limits.left_offers =
        std::min(config.limits.left_offers, descriptors / 6); // Of half the limit: a quarter, by 3.
    config.placement = Placement::of_this_host();
    config.random = random_bytes;
    config.epoch = epoch_now();
    config.owner = ::geteuid();
    config.pid = static_cast<std::uint32_t>(::getpid());
    config.on_demand = options.on_demand.has_value();
    auto server = Server::create(std::move(config), log);
    if (server) return std::move(*server);
    if (server.error() == Errno{ENOSYS})
        throw Failure{
            "/proc is not mounted: without it no memory can be shared read-only; mount it (mount -t proc proc /proc)"};
    throw Failure{"cannot make the fabric's state regions: " + text(server.error())};
}

int serve(const Options& options, Readiness& readiness) {
    model::Topology topology = load(options.topology);
    const auto group = find_group(options.group);
    if (options.daemonize || options.on_demand) close_inherited(options.ready_fd);
    Fd log_file = open_log(options);
    std::string why;
    auto dir = SocketDir::open(options.dir, SocketDir::Missing::is_created, why);
    if (!dir) throw Failure{why};
    if (options.daemonize) {
        if (options.log_file.empty()) log_file.reset();
        if (!readiness.go_to_background()) throw Failure{"cannot go to the background: " + text(last_errno())};
    }
    // Paths that were given relative are open by now; from here on the daemon must not hold a file system busy.
    if ((options.daemonize || options.on_demand) && ::chdir("/") != 0)
        throw Failure{"cannot enter /: " + text(last_errno())};

    Log log{log_file.get(), options.log_level, options.fabric};
    const Fd signals = open_signals();
    const std::uint32_t descriptors = raise_descriptor_limit();
    const auto listener = Listener::open(std::move(*dir), options.fabric, group, why);
    if (!listener) throw Failure{why};
    const auto loop = make_loop(options.loop, log);
    const auto server = make_server(options, std::move(topology), descriptors, log);
    Service service{*server, *loop, *listener, signals.get(), {options.on_demand}};

    log.info("serves " + options.topology + " at " + listener->path() + ", by " + loop->name());
    readiness.ready();
    if (const Errno e = service.run(); e.failed()) {
        log.error(std::string{"the event loop failed: "} + text(e));
        return exit_failed;
    }
    log.info("ends");
    return 0;
}

} // namespace
} // namespace nvlf::daemon

int main(int argc, char** argv) {
    using namespace nvlf::daemon;
    int code = 0;
    const auto options = parse_options(argc, argv, code);
    if (!options) return code;
    Readiness readiness{nvlf::Fd{options->ready_fd.value_or(-1)}};
    try {
        if (options->list_topologies) {
            list_topologies();
            return 0;
        }
        if (options->dump_state.empty()) return serve(*options, readiness);
        dump_state(options->dump_state);
        return 0;
    } catch (const Failure& failure) {
        readiness.failed(failure.why);
        for (const std::string& line : failure.more) std::fprintf(stderr, "nvlfd: %s\n", line.c_str());
        return failure.code;
    } catch (const std::exception& error) {
        readiness.failed(error.what());
        return exit_failed;
    }
}
