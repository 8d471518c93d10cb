// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/connect.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <cstring>
#include <string_view>

#include "base/socket_dir.hpp"
#include "driver/carrier_socket.hpp"
#include "driver/on_demand.hpp"

namespace nvlf {
namespace {

std::string_view text(const char* value) { return value != nullptr ? value : ""; }

// The size rule of the contract, for the one struct of this API: an unknown tail must be zero.
Errno check_size(const nvlf_open_args& args) {
    if (args.size < sizeof args) return Errno{EINVAL};
    const auto* bytes = reinterpret_cast<const unsigned char*>(&args);
    for (std::size_t i = sizeof args; i < args.size; ++i)
        if (bytes[i] != 0) return Errno{E2BIG};
    return Errno{};
}

Result<Fd> make_socket() {
    Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    if (!socket) return last_errno();
    if (socket.get() < 3) { // See above_stdio in carrier_socket.cc.
        const int moved = ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3);
        if (moved < 0) return last_errno();
        socket.reset(moved);
    }
    // Bounds the wait for a place in the backlog of a daemon that does not accept; the rest is bounded by poll().
    const timeval bound{SocketCarrier::patience.count() / 1000, 0};
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound) != 0) return last_errno();
    return socket;
}

// What connect() says, in terms of a fabric.
Errno judge_connect(Errno error, const OpenWish& wish, const SocketDir& dir, std::string& why) {
    const std::string fabric = "fabric \"" + wish.fabric + "\" in " + dir.path();
    switch (error.value()) {
    case ENOENT:
    case ECONNREFUSED: // A socket that nobody listens on: its daemon was killed.
        why = fabric + " is not running";
        return Errno{ENOENT};
    case EACCES: why = fabric + ": its socket is closed to us (another user's?)"; return error;
    case EAGAIN: why = fabric + " does not take connections: its daemon hangs"; return Errno{ETIMEDOUT};
    case EPROTOTYPE: why = fabric + ": its socket is not that of a fabric"; return Errno{EPROTO};
    default:
        if (why.empty()) why = fabric + " cannot be connected to: " + ::strerrordesc_np(error.value());
        return error;
    }
}

Result<std::unique_ptr<Carrier>> connect_in(const SocketDir& dir, const OpenWish& wish, std::string& why) {
    Result<Fd> socket = make_socket();
    if (!socket) {
        why = std::string{"no socket: "} + ::strerrordesc_np(socket.error().value());
        return socket.error();
    }
    why.clear();
    if (const Errno error = dir.connect(socket->get(), wish.fabric, why); error.failed())
        return judge_connect(error, wish, dir, why);
    return std::unique_ptr<Carrier>{std::make_unique<SocketCarrier>(*std::move(socket))};
}

} // namespace

Result<OpenWish> understand(const nvlf_open_args* args, std::string& ret_why) {
    static constexpr nvlf_open_args none{sizeof(nvlf_open_args), 0, nullptr, nullptr, nullptr};
    const nvlf_open_args& a = args != nullptr ? *args : none;
    if (const Errno error = check_size(a); error.failed()) {
        ret_why = "nvlf_open_args.size does not fit this version of libnvlf";
        return error;
    }
    if ((a.flags & ~(NVLF_OPEN_NO_START | NVLF_OPEN_GUEST)) != 0) {
        ret_why = "nvlf_open_args.flags has bits that this version of libnvlf does not know";
        return Errno{EINVAL};
    }
    OpenWish wish;
    wish.fabric = fabric_name(text(a.fabric));
    wish.dir = text(a.dir);
    wish.topology = text(a.topology != nullptr ? a.topology : ::secure_getenv("NVLF_TOPOLOGY"));
    wish.may_start = (a.flags & NVLF_OPEN_NO_START) == 0 && text(::secure_getenv("NVLF_ON_DEMAND")) != "0";
    wish.guest = (a.flags & NVLF_OPEN_GUEST) != 0;
    if (valid_fabric_name(wish.fabric)) return wish;
    const bool too_long = wish.fabric.size() >= NVLF_NAME_LEN;
    ret_why = "\"" + wish.fabric + "\" cannot be the name of a fabric: " +
              (too_long ? "it is longer than " + std::to_string(NVLF_NAME_LEN - 1) + " characters"
                        : "only A-Z a-z 0-9 . _ - may be in it, and no - at its beginning");
    return Errno{too_long ? ENAMETOOLONG : EINVAL};
}

Result<std::unique_ptr<Carrier>> connect_running(const OpenWish& wish, std::string& ret_why) {
    const Result<SocketDir> dir = SocketDir::open(wish.dir, SocketDir::Missing::is_error, ret_why);
    if (!dir) {
        if (dir.error() == Errno{ENOENT}) ret_why = "fabric \"" + wish.fabric + "\" is not running: " + ret_why;
        return dir.error();
    }
    return connect_in(*dir, wish, ret_why);
}

Result<std::unique_ptr<Carrier>> connect_or_start(const OpenWish& wish, std::string& ret_why) {
    Result<std::unique_ptr<Carrier>> running = connect_running(wish, ret_why);
    if (running || running.error() != Errno{ENOENT} || !wish.may_start) {
        if (!running && running.error() == Errno{ENOENT}) ret_why += ", and was not to be started";
        return running;
    }
    std::string why;
    const Result<std::string> program = find_nvlfd(why);
    if (!program) {
        ret_why += ", and cannot be started: " + why;
        return program.error();
    }
    const Result<SocketDir> dir = SocketDir::open(wish.dir, SocketDir::Missing::is_created, ret_why);
    if (!dir) return dir.error();
    const DaemonStart start{*program, dir->path(), wish.fabric, wish.topology};
    const Errno started = start_daemon(start, SocketCarrier::patience, why);
    // Whether or not it came up, somebody's may have: of two daemons that start at once, one gives way to the other.
    Result<std::unique_ptr<Carrier>> second = connect_in(*dir, wish, ret_why);
    if (second || second.error() != Errno{ENOENT} || !started.failed()) return second;
    ret_why += ", and could not be started: " + why;
    return started == Errno{EAGAIN} ? Errno{ENOENT} : started;
}

} // namespace nvlf
