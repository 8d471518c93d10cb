// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/service.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace nvlf::daemon {
namespace {

// Keys of the loop. Clients have their ids, which count up from 1.
constexpr std::uint64_t key_listener = ~std::uint64_t{0};
constexpr std::uint64_t key_signals = key_listener - 1;

constexpr std::size_t max_backlog = 16; // Replies that wait in nvlfd for one client.
constexpr int requests_a_turn = 16;     // Of one client before the others have theirs.
constexpr int accepts_a_turn = 64;
constexpr int socket_send_buffer = 32 * 1024; // Some 20 replies; bounds the descriptors that lie in flight as well.
// An on-demand fabric that nobody came to: whoever started it has had time enough.
constexpr std::uint32_t least_first_wait_s = 10;

std::string read_command(pid_t pid) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
    const Fd file{::open(path, O_RDONLY | O_CLOEXEC)};
    char name[NVLF_NAME_LEN]{};
    if (!file || ::read(file.get(), name, sizeof name - 1) <= 0) return {};
    name[std::strcspn(name, "\n")] = '\0';
    return name;
}

constexpr int so_peerpidfd = 77; // SO_PEERPIDFD of Linux 6.5, which the C library does not name yet.

// Before 6.5 the process is asked for by its number: that it ended since it connected, and that its number was given to
// another one in these microseconds, is as good as impossible.
Fd open_process(int socket, pid_t pid) {
    int process = -1;
    socklen_t length = sizeof process;
    if (::getsockopt(socket, SOL_SOCKET, so_peerpidfd, &process, &length) == 0) return Fd{process};
    if (pid <= 0) return {};
    process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    return process >= 0 ? Fd{process} : Fd{};
}

Identity identify(int socket) {
    ucred who{};
    socklen_t length = sizeof who;
    Identity identity;
    identity.uid = ~0U; // Nobody's, should the kernel not say.
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return identity;
    identity.uid = who.uid;
    identity.pid = static_cast<std::uint32_t>(std::max<pid_t>(who.pid, 0));
    if (who.pid > 0) identity.command = read_command(who.pid);
    identity.process = open_process(socket, who.pid);
    return identity;
}

Fd open_spare() { return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

} // namespace

Service::Service(Server& server, Loop& loop, const Listener& listener, int signals, Config config)
    : server_{server},
      loop_{loop},
      listener_{listener},
      signals_{signals},
      config_{config},
      spare_{open_spare()},
      idle_since_{Clock::now()} {}

Errno Service::run() {
    if (const Errno e = loop_.add(listener_.fd(), key_listener, Interest::read); e.failed()) return e;
    if (const Errno e = loop_.add(signals_, key_signals, Interest::read); e.failed()) return e;
    std::vector<Ready> ready;
    while (!ending_ && !server_.going_down()) {
        const auto bound = until_idle_end();
        if (bound == 0U) {
            accept_some(); // Whoever came at the last moment is not turned away.
            if (server_.client_count() > 0) continue;
            server_.log().info("no client for so long: the on-demand fabric ends");
            break;
        }
        ready.clear();
        if (const Errno e = loop_.wait(bound, ready); e.failed()) return e;
        for (const Ready& r : ready) dispatch(r);
    }
    server_.say_goodbye();
    return Errno{};
}

void Service::dispatch(const Ready& ready) {
    if (ready.key == key_listener) return accept_some();
    if (ready.key == key_signals) return read_signal();
    const auto it = connections_.find(ready.key);
    if (it == connections_.end()) return; // Dropped earlier in this turn.
    if (ready.writable && !it->second.backlog.empty() && !send_backlog(ready.key, it->second)) return;
    if (ready.readable) receive_some(ready.key, it->second);
}

void Service::accept_some() {
    for (int i = 0; i < accepts_a_turn && accept_one(); ++i) {}
}

bool Service::accept_one() {
    Fd socket{::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
        add_connection(std::move(socket));
        return true;
    }
    switch (errno) {
    case EINTR:
    case ECONNABORTED: return true;
    case EMFILE:
    case ENFILE: shed_one(); return false;
    case EAGAIN: return false;
    default:
        server_.log().warning(std::string{"cannot accept a connection: "} + ::strerrordesc_np(errno));
        return false;
    }
}

// Its client sees the connection closed before any reply, which libnvlf reports as such.
void Service::shed_one() {
    spare_.reset();
    const Fd refused{::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (refused)
        server_.log().warning("connection of pid " + std::to_string(identify(refused.get()).pid) +
                              " closed: nvlfd has no descriptor left; raise RLIMIT_NOFILE");
    spare_ = open_spare();
}

void Service::add_connection(Fd socket) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &socket_send_buffer, sizeof socket_send_buffer);
    const auto id = server_.connect(identify(socket.get()));
    if (!id) return; // Closed: there are too many even to be told so.
    if (const Errno e = loop_.add(socket.get(), *id, Interest::read); e.failed()) {
        server_.disconnect(*id, std::string{"it cannot be watched: "} + ::strerrordesc_np(e.value()));
        return;
    }
    connections_.emplace(*id, Connection{std::move(socket), {}});
}

void Service::receive_some(ClientId id, Connection& connection) {
    for (int i = 0; i < requests_a_turn; ++i)
        if (!receive_one(id, connection)) return;
}

// False when the client's turn is over: nothing more to read, no room for its replies, or gone.
bool Service::receive_one(ClientId id, Connection& connection) {
    const Errno error = receive_message(connection.socket.get(), message_, MSG_DONTWAIT);
    if (error == Errno{EAGAIN}) return false;
    const bool unreadable = error == Errno{EMSGSIZE}; // Too long, or too many descriptors.
    if (error.failed() && !unreadable) {
        drop(id, std::string{"its connection failed: "} + ::strerrordesc_np(error.value()));
        return false;
    }
    if (!unreadable && message_.length == 0) {
        drop(id, "it closed its connection");
        return false;
    }
    had_client_ = true;
    Reply reply;
    server_.handle(id, unreadable ? std::span<const std::byte>{} : message_.body(), message_.fd_count, reply);
    for (Fd& fd : message_.fds) fd.reset(); // No command of ours takes any.
    return send_or_keep(id, connection, std::move(reply)) && !server_.going_down();
}

namespace {

Errno send_reply(int socket, const Reply& reply) {
    std::array<int, NVLF_MSG_FDS> fds{};
    for (std::size_t i = 0; i < reply.fds.size(); ++i) fds[i] = reply.fds.get(i);
    return send_message(socket, reply.body(), {fds.data(), reply.fds.size()}, MSG_DONTWAIT);
}

} // namespace

bool Service::send_or_keep(ClientId id, Connection& connection, Reply reply) {
    if (connection.backlog.empty()) {
        const Errno error = send_reply(connection.socket.get(), reply);
        if (!error.failed()) return true;
        if (error != Errno{EAGAIN}) {
            drop(id, std::string{"a reply cannot be sent: "} + ::strerrordesc_np(error.value()));
            return false;
        }
        if (loop_.change(connection.socket.get(), id, Interest::read_and_write).failed()) {
            drop(id, "it cannot be watched for room");
            return false;
        }
    }
    if (connection.backlog.size() >= max_backlog) {
        drop(id, "it does not read its replies");
        return false;
    }
    connection.backlog.push_back(std::move(reply));
    return true;
}

// False when the client is gone by it.
bool Service::send_backlog(ClientId id, Connection& connection) {
    Errno error;
    while (!connection.backlog.empty()) {
        error = send_reply(connection.socket.get(), connection.backlog.front());
        if (error == Errno{EAGAIN}) return true;
        if (error.failed()) break;
        connection.backlog.pop_front();
    }
    if (!error.failed()) error = loop_.change(connection.socket.get(), id, Interest::read);
    if (!error.failed()) return true;
    drop(id, std::string{"a reply cannot be sent: "} + ::strerrordesc_np(error.value()));
    return false;
}

void Service::drop(ClientId id, std::string_view why) {
    const auto it = connections_.find(id);
    if (it == connections_.end()) return;
    loop_.remove(it->second.socket.get(), id);
    server_.disconnect(id, why);
    connections_.erase(it);
    if (server_.client_count() == 0) idle_since_ = Clock::now();
}

void Service::read_signal() {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != sizeof info) return;
    server_.log().info("ends by " + std::string{::sigdescr_np(static_cast<int>(info.ssi_signo))} + " from pid " +
                       std::to_string(info.ssi_pid));
    ending_ = true;
}

// Milliseconds; 0: now. nullopt: not while things are as they are.
std::optional<std::uint32_t> Service::until_idle_end() {
    if (!config_.idle_seconds || server_.client_count() > 0) return std::nullopt;
    std::uint32_t seconds = *config_.idle_seconds;
    if (!had_client_) seconds = std::max(seconds, least_first_wait_s);
    const auto end = idle_since_ + std::chrono::seconds{seconds};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, 24 * 3600 * 1000));
}

} // namespace nvlf::daemon
