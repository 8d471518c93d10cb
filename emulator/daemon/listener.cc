// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/listener.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "base/message.hpp"

namespace nvlf::daemon {
namespace {

constexpr int answer_bound_ms = 2000; // A loaded machine's nvlfd answers in milliseconds.
constexpr int max_looks = 20;         // A dying one breaks a connection once, as a rule.

std::string text(Errno error) { return ::strerrordesc_np(error.value()); }

// Holds the directory's lock as long as it exists.
class DirectoryLock {
public:
    // Through a description of its own: the lock must not stay with SocketDir's descriptor.
    explicit DirectoryLock(const SocketDir& dir) : fd_{::openat(dir.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)} {}
    [[nodiscard]] Errno take() {
        if (!fd_) return last_errno();
        while (::flock(fd_.get(), LOCK_EX) != 0)
            if (errno != EINTR) return last_errno();
        return Errno{};
    }

private:
    Fd fd_; // flock() ends with the last descriptor.
};

// What connecting to a socket file found there.
struct Occupant {
    enum class Kind { nobody, alive, silent, unknown } kind = Kind::unknown;
    std::string why; // unknown: for people.
    pid_t pid = 0;   // alive, silent.
};

pid_t peer_pid(int socket) {
    ucred who{};
    socklen_t length = sizeof who;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 ? who.pid : 0;
}

// Any answer to any question is a sign of life. False: the connection broke.
bool ask(int socket) {
    const nvlf_msg question{NVLF_MSG_MAGIC, NVLF_CMD_GET_INFO, 0, 0};
    return !send_message(socket, std::as_bytes(std::span{&question, 1}), {}, MSG_DONTWAIT).failed();
}

// Being connected proves little: io_uring lets go of the descriptors of a killed process a moment after its death, and
// until then the kernel queues connections for a listener that nobody will serve. So we ask, and a connection that
// breaks instead of answering is tried again, which then meets the truth.
Occupant look(const SocketDir& dir, const std::string& fabric) {
    for (int attempt = 0; attempt < max_looks; ++attempt) {
        // Not blocking: a living nvlfd may be stopped, with its backlog full.
        const Fd probe{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
        if (!probe) return {Occupant::Kind::unknown, text(last_errno()), 0};
        std::string why;
        const Errno error = dir.connect(probe.get(), fabric, why);
        if (error == Errno{ECONNREFUSED} || error == Errno{ENOENT}) return {Occupant::Kind::nobody, {}, 0};
        if (error == Errno{EACCES}) return {Occupant::Kind::unknown, "it belongs to another user", 0};
        if (error == Errno{EAGAIN}) return {Occupant::Kind::silent, {}, 0};
        if (error.failed()) return {Occupant::Kind::unknown, why.empty() ? text(error) : why, 0};
        const pid_t pid = peer_pid(probe.get());
        if (!ask(probe.get())) continue;
        pollfd answered{probe.get(), POLLIN, 0};
        int ready = 0;
        do ready = ::poll(&answered, 1, answer_bound_ms);
        while (ready < 0 && errno == EINTR);
        if (ready <= 0) return {Occupant::Kind::silent, {}, pid};
        Message answer;
        if (!receive_message(probe.get(), answer, MSG_DONTWAIT).failed() && answer.length > 0)
            return {Occupant::Kind::alive, {}, pid};
    }
    return {Occupant::Kind::unknown, "it closes every connection", 0};
}

// Empty: the name is free, and a leftover is removed.
std::string claim(const SocketDir& dir, const std::string& fabric) {
    struct stat st {};
    const std::string file = socket_file(fabric);
    const std::string path = dir.path() + '/' + file;
    if (::fstatat(dir.fd(), file.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? std::string{} : "cannot look at " + path + ": " + text(last_errno());
    if (!S_ISSOCK(st.st_mode)) return path + " is in the way: it is not a socket; remove it or choose another name";
    const Occupant occupant = look(dir, fabric);
    const std::string named = occupant.pid != 0 ? " (pid " + std::to_string(occupant.pid) + ')' : std::string{};
    switch (occupant.kind) {
    case Occupant::Kind::nobody: break;
    case Occupant::Kind::alive:
        return "fabric '" + fabric + "' is already running" + named +
               "; choose another name by --fabric, or take it down by `nvlf down`";
    case Occupant::Kind::silent:
        return "fabric '" + fabric + "' is already running" + named + ", but does not answer; is it stopped?";
    case Occupant::Kind::unknown:
        return "cannot tell whether fabric '" + fabric + "' runs (" + path + "): " + occupant.why;
    }
    if (::unlinkat(dir.fd(), file.c_str(), 0) == 0 || errno == ENOENT) return {};
    return "cannot remove the socket " + path + " that a killed nvlfd left: " + text(last_errno());
}

// Mode and group of the socket, and of the directory if the group has to pass it.
std::string admit_group(const SocketDir& dir, const std::string& file, gid_t group) {
    struct stat st {};
    if (::fchownat(dir.fd(), file.c_str(), static_cast<uid_t>(-1), group, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::fchmodat(dir.fd(), file.c_str(), 0660, 0) != 0)
        return "cannot give the socket to the group: " + text(last_errno());
    if (::fstat(dir.fd(), &st) != 0) return "cannot look at the socket directory: " + text(last_errno());
    if (st.st_gid == group && (st.st_mode & S_IXGRP) != 0) return {};
    if (::fchown(dir.fd(), static_cast<uid_t>(-1), group) != 0 || ::fchmod(dir.fd(), 0750) != 0)
        return "cannot let the group into the socket directory " + dir.path() + ": " + text(last_errno());
    return {};
}

} // namespace

std::optional<Listener> Listener::open(SocketDir dir, std::string fabric, std::optional<gid_t> group,
                                       std::string& ret_why) {
    DirectoryLock lock{dir};
    if (const Errno e = lock.take(); e.failed()) {
        ret_why = "cannot lock the socket directory " + dir.path() + ": " + text(e);
        return std::nullopt;
    }
    ret_why = claim(dir, fabric);
    if (!ret_why.empty()) return std::nullopt;

    const std::string file = socket_file(fabric);
    Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) {
        ret_why = "cannot make a socket: " + text(last_errno());
        return std::nullopt;
    }
    // Nobody else's from the first moment on. nvlfd makes no other file, so the mask may stay.
    ::umask(0177);
    if (const Errno e = dir.bind(socket.get(), fabric, ret_why); e.failed()) {
        if (ret_why.empty()) ret_why = "cannot make the socket " + dir.path() + '/' + file + ": " + text(e);
        return std::nullopt;
    }
    struct stat st {};
    const bool seen = ::fstatat(dir.fd(), file.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    Listener listener{std::move(dir), std::move(fabric), std::move(socket), st.st_dev, st.st_ino};
    if (!seen) {
        ret_why = "the socket " + listener.path() + " vanished";
        return std::nullopt;
    }
    if (group) ret_why = admit_group(listener.dir_, file, *group);
    if (ret_why.empty() && ::listen(listener.fd(), SOMAXCONN) != 0)
        ret_why = "cannot listen on " + listener.path() + ": " + text(last_errno());
    if (!ret_why.empty()) return std::nullopt;
    return listener;
}

Listener::Listener(Listener&& other) noexcept
    : dir_{std::move(other.dir_)},
      fabric_{std::move(other.fabric_)},
      socket_{std::move(other.socket_)},
      dev_{other.dev_},
      ino_{other.ino_} {}

Listener::~Listener() {
    if (!socket_) return;
    const std::string file = socket_file(fabric_);
    struct stat st {};
    if (::fstatat(dir_.fd(), file.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == dev_ && st.st_ino == ino_)
        ::unlinkat(dir_.fd(), file.c_str(), 0);
}

} // namespace nvlf::daemon
