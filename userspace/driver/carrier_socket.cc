// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "driver/carrier_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/cancel.hpp"
#include "base/commands.hpp"

namespace nvlf {
namespace {

// EPIPE and ECONNRESET are how a dead peer looks from here; to our callers it is a device that is not there.
Errno as_gone(Errno error) noexcept {
    const bool gone = error == Errno{EPIPE} || error == Errno{ECONNRESET} || error == Errno{ENOTCONN};
    return gone ? Errno{ENODEV} : error;
}

std::uint32_t load_u32(std::span<const std::byte> body, std::size_t at) noexcept {
    std::uint32_t value = 0;
    std::memcpy(&value, body.data() + at, sizeof value);
    return value;
}

void store_u32(std::span<std::byte> body, std::size_t at, std::uint32_t value) noexcept {
    std::memcpy(body.data() + at, &value, sizeof value);
}

// Puts the request together; descriptor fields become indices into `fds`.
std::size_t encode(const Command& command, std::uint32_t tag, std::span<const std::byte> body, std::span<std::byte> out,
                   std::array<int, NVLF_MSG_FDS>& fds, std::size_t& fd_count) noexcept {
    const nvlf_msg head{NVLF_MSG_MAGIC, command.cmd, tag, 0};
    std::memcpy(out.data(), &head, sizeof head);
    std::memcpy(out.data() + sizeof head, body.data(), body.size());
    const auto out_body = out.subspan(sizeof head, body.size());
    fd_count = 0;
    for (const std::uint16_t at : command.fd_at) {
        if (at == 0) break;
        if (!command.fds_from_client) {
            store_u32(out_body, at, 0); // An output: zero in a request, like all outputs.
        } else if (const std::uint32_t fd = load_u32(out_body, at); fd != NVLF_NO_FD) {
            fds[fd_count] = static_cast<int>(fd);
            store_u32(out_body, at, static_cast<std::uint32_t>(fd_count++));
        }
    }
    return sizeof head + body.size();
}

// A descriptor number below 3 in a host that closed its standard streams would sooner or later be written to by
// somebody's printf.
Errno above_stdio(Fd& fd) noexcept {
    if (fd.get() > 2) return Errno{};
    const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return last_errno();
    fd.reset(moved);
    return Errno{};
}

// Replaces the indices in the answer by the descriptors. Each descriptor must be named exactly once: one that nobody
// names would be lost, one named twice would have two owners.
Errno place_descriptors(const Command& command, std::span<std::byte> body, Message& reply) noexcept {
    const bool expected = !command.fds_from_client;
    std::size_t placed = 0;
    std::array<std::uint32_t, NVLF_MSG_FDS> index{};
    std::array<bool, NVLF_MSG_FDS> named{};
    for (std::size_t i = 0; expected && i < command.fd_at.size() && command.fd_at[i] != 0; ++i) {
        index[i] = load_u32(body, command.fd_at[i]);
        if (index[i] == NVLF_NO_FD) continue;
        if (index[i] >= reply.fd_count || named[index[i]]) return Errno{EPROTO};
        named[index[i]] = true;
        ++placed;
    }
    if (placed != reply.fd_count) return Errno{EPROTO};
    for (std::size_t i = 0; i < reply.fd_count; ++i)
        if (const Errno error = above_stdio(reply.fds[i]); error.failed()) return error;
    for (std::size_t i = 0; expected && i < command.fd_at.size() && command.fd_at[i] != 0; ++i)
        if (index[i] != NVLF_NO_FD)
            store_u32(body, command.fd_at[i], static_cast<std::uint32_t>(reply.fds[index[i]].release()));
    return Errno{};
}

// Field values that name no descriptor, for answers whose descriptors never came.
void clear_descriptors(const Command& command, std::span<std::byte> body) noexcept {
    for (const std::uint16_t at : command.fd_at)
        if (at != 0 && !command.fds_from_client) store_u32(body, at, NVLF_NO_FD);
}

// The shape of an answer, before anything in it is believed.
bool well_formed(const Message& reply, const Command& command, std::uint32_t tag, std::size_t body_size,
                 nvlf_msg& head) noexcept {
    if (reply.length < sizeof head) return false;
    std::memcpy(&head, reply.bytes.data(), sizeof head);
    if (head.magic != NVLF_MSG_MAGIC || head.cmd != command.cmd || head.tag != tag) return false;
    constexpr std::uint32_t max_errno = 4095; // As the kernel's own.
    if (head.error > max_errno) return false;
    if (head.error != 0 && (reply.fd_count != 0 || reply.length == sizeof head)) return reply.fd_count == 0;
    return reply.length == sizeof head + body_size && load_u32(reply.body(), sizeof head) == body_size;
}

} // namespace

Errno SocketCarrier::await(short events, Clock::time_point end) const noexcept {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        if (left <= 0) return Errno{ETIMEDOUT};
        pollfd waited{socket_.fd(), events, 0};
        const int ready = ::poll(&waited, 1, static_cast<int>(left));
        if (ready > 0) return Errno{}; // Hung up as well: the call that follows tells.
        if (ready < 0 && errno != EINTR) return last_errno();
    }
}

Errno SocketCarrier::round_trip(std::span<const std::byte> request, std::span<const int> fds, Message& reply) {
    const auto end = Clock::now() + bound_;
    for (;;) {
        const Errno error = send_message(socket_.fd(), request, fds, MSG_DONTWAIT);
        if (!error.failed()) break;
        if (error != Errno{EAGAIN}) return error;
        if (const Errno late = await(POLLOUT, end); late.failed()) return late;
    }
    for (;;) {
        if (const Errno late = await(POLLIN, end); late.failed()) return late;
        const Errno error = receive_message(socket_.fd(), reply, MSG_DONTWAIT);
        if (error == Errno{EAGAIN}) continue;
        if (!error.failed() && reply.length == 0) return Errno{ENODEV}; // End of file.
        return error == Errno{EMSGSIZE} ? Errno{EPROTO} : error;
    }
}

Errno SocketCarrier::fatal(Errno error) noexcept {
    dead_.store(true, std::memory_order_relaxed);
    // The other end then sees our end at once, although we keep the descriptor for its hang-up. Not in a forked child,
    // whose socket is the parent's as well: it has closed its copy and fd() is -1.
    ::shutdown(socket_.fd(), SHUT_RDWR);
    return error;
}

void SocketCarrier::condemn() noexcept { static_cast<void>(fatal(Errno{EPROTO})); }

Errno SocketCarrier::transact(std::uint32_t cmd, std::span<std::byte> body) noexcept {
    if (in_forked_child()) return Errno{EOWNERDEAD};
    const Uncancellable whole; // Half a conversation would be the other half of the next.
    const Command* command = find_command(cmd);
    if (command == nullptr || body.size() != command->size) return Errno{EINVAL};

    const std::lock_guard guard{lock_};
    if (!usable()) return Errno{ENODEV};
    std::array<std::byte, NVLF_MSG_BYTES> request;
    std::array<int, NVLF_MSG_FDS> fds{};
    std::size_t fd_count = 0;
    const std::uint32_t tag = ++tag_;
    const std::size_t length = encode(*command, tag, body, request, fds, fd_count);
    Message reply;
    const Errno error = round_trip(std::span{request}.first(length), std::span{fds}.first(fd_count), reply);
    const bool out_of_descriptors = error == Errno{EMFILE};
    if (error.failed() && !out_of_descriptors) return fatal(as_gone(error));

    nvlf_msg head{};
    if (!well_formed(reply, *command, tag, body.size(), head)) return fatal(Errno{EPROTO});
    const auto answer = std::span{reply.bytes}.subspan(sizeof head, reply.length - sizeof head);
    if (head.error != 0) {
        // The one result of a failed command: which version of the contract is spoken there.
        if (cmd == NVLF_CMD_GET_INFO && !answer.empty())
            store_u32(body, offsetof(nvlf_ioc_info, abi), load_u32(answer, offsetof(nvlf_ioc_info, abi)));
        return Errno{static_cast<int>(head.error)};
    }
    if (out_of_descriptors) {
        clear_descriptors(*command, answer);
        std::memcpy(body.data(), answer.data(), body.size());
        return error;
    }
    if (const Errno bad = place_descriptors(*command, answer, reply); bad.failed()) {
        if (bad == Errno{EPROTO}) return fatal(bad);
        clear_descriptors(*command, answer);
        std::memcpy(body.data(), answer.data(), body.size());
        return bad;
    }
    std::memcpy(body.data(), answer.data(), body.size());
    return Errno{};
}

} // namespace nvlf
