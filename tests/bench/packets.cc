// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See packets.hpp.
#include "packets.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace nvlf::bench {
namespace {

constexpr std::size_t longest = 65536;

[[noreturn]] void fail(const char* what) { throw std::system_error{errno, std::generic_category(), what}; }

template <class Call>
Packets named(const std::string& path, Call&& call, const char* what) {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    Packets packets{fd};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw std::runtime_error{"socket path too long: " + path};
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (call(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(sizeof address)) != 0) fail(what);
    return packets;
}

} // namespace

Packets::~Packets() {
    if (fd_ >= 0) ::close(fd_);
}
Packets::Packets(Packets&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
Packets& Packets::operator=(Packets&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

Packets Packets::listen(const std::string& path) {
    Packets packets = named(path, ::bind, "bind");
    if (::listen(packets.fd_, 64) != 0) fail("listen");
    return packets;
}

Packets Packets::connect(const std::string& path) { return named(path, ::connect, "connect"); }

Packets Packets::accept(std::chrono::milliseconds bound) const {
    wait(bound);
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) fail("accept");
    return Packets{fd};
}

void Packets::send(const nlohmann::json& packet) const {
    const std::string text = packet.dump();
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) fail("send to a process of the team");
}

nlohmann::json Packets::receive(std::chrono::milliseconds bound) const {
    wait(bound);
    nlohmann::json packet = receive();
    if (packet.is_null()) throw std::runtime_error{"a process of the team ended"};
    return packet;
}

nlohmann::json Packets::receive() const {
    std::string text(longest, '\0');
    const auto got = ::recv(fd_, text.data(), text.size(), 0);
    if (got <= 0) return nullptr;
    text.resize(static_cast<std::size_t>(got));
    return nlohmann::json::parse(text);
}

void Packets::wait(std::chrono::milliseconds bound) const {
    pollfd waited{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waited, 1, static_cast<int>(bound.count())) != 1) throw std::runtime_error{"no answer in time"};
}

} // namespace nvlf::bench
