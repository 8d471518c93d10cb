// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/readiness.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

namespace nvlf::daemon {
namespace {

void say(Fd& fd, std::string_view text) {
    // Who waited may be gone; that is no reason not to serve.
    [[maybe_unused]] const ssize_t written = ::write(fd.get(), text.data(), text.size());
    fd.reset();
}

// What libsystemd's sd_notify does: one datagram to the socket that NOTIFY_SOCKET names.
void notify_systemd(std::string_view text) {
    const char* path = ::secure_getenv("NOTIFY_SOCKET");
    if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
    sockaddr_un address{};
    const std::size_t length = std::strlen(path);
    if (length >= sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = '\0'; // The abstract namespace.
    const Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    // The cast is the socket API's own idiom.
    [[maybe_unused]] const ssize_t sent = ::sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                                   reinterpret_cast<const sockaddr*>(&address), size);
}

// The parent's half of going to the background.
[[noreturn]] void wait_and_exit(int from_child) {
    std::string text;
    char part[256];
    for (;;) {
        const ssize_t got = ::read(from_child, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(part, static_cast<std::size_t>(got));
    }
    if (text == "ready\n") ::_exit(0);
    if (text.empty()) text = "nvlfd ended before it was ready\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(1);
}

} // namespace

void Readiness::ready() {
    if (waiter_) say(waiter_, "ready\n");
    if (parent_) say(parent_, "ready\n");
    notify_systemd("READY=1\nSTATUS=Serving\n");
}

void Readiness::failed(std::string_view why) {
    const std::string line = "nvlfd: " + std::string{why} + '\n';
    notify_systemd("STATUS=" + line);
    if (waiter_) say(waiter_, line);
    if (parent_) say(parent_, line);
    else [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool Readiness::go_to_background() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    Fd reader{ends[0]};
    Fd writer{ends[1]};
    const pid_t child = ::fork();
    if (child < 0) return false;
    if (child > 0) {
        writer.reset();
        wait_and_exit(reader.get());
    }
    parent_ = std::move(writer);
    ::setsid();
    const Fd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    if (!null) return false;
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), standard);
    return true;
}

} // namespace nvlf::daemon
