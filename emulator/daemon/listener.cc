// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/listener.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace nvlf::daemon {
namespace {

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

// Is somebody there? Empty: the name is free, a leftover is removed.
std::string claim(const SocketDir& dir, const std::string& fabric) {
    struct stat st {};
    const std::string file = socket_file(fabric);
    const std::string path = dir.path() + '/' + file;
    if (::fstatat(dir.fd(), file.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? std::string{} : "cannot look at " + path + ": " + text(last_errno());
    if (!S_ISSOCK(st.st_mode)) return path + " is in the way: it is not a socket; remove it or choose another name";
    // Not blocking: a living nvlfd may be stopped, with its backlog full.
    Fd probe{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!probe) return "cannot make a socket: " + text(last_errno());
    std::string why;
    const Errno error = dir.connect(probe.get(), fabric, why);
    if (error == Errno{ECONNREFUSED} || error == Errno{ENOENT}) {
        if (::unlinkat(dir.fd(), file.c_str(), 0) == 0 || errno == ENOENT) return {};
        return "cannot remove the socket " + path + " that a killed nvlfd left: " + text(last_errno());
    }
    if (error == Errno{EACCES}) return "fabric '" + fabric + "' belongs to another user (" + path + ")";
    if (error.failed() && error != Errno{EAGAIN})
        return "cannot tell whether fabric '" + fabric + "' runs: connecting to " + path + ": " +
               (why.empty() ? text(error) : why);
    ucred who{};
    socklen_t length = sizeof who;
    const bool known = !error.failed() && ::getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
    return "fabric '" + fabric + "' is already running" + (known ? " (pid " + std::to_string(who.pid) + ")" : "") +
           "; choose another name by --fabric, or take it down by `nvlf down`";
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
