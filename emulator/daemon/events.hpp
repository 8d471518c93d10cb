// SPDX-License-Identifier: MIT OR GPL-2.0-only
// events.hpp - how nvlfd calls a client without ever waiting for it.
//
// Both kinds of call are socket pairs of which the client gets one end. A pair ends when nvlfd ends, however it ends,
// which an eventfd would not tell; and a full one answers EAGAIN, which costs the client a call and nobody else anything.
// Our ends are shut for reading and have small buffers: a client cannot park data or descriptors in them, and 65536
// endpoints that never read cost what their first few unread bytes cost.
#pragma once

#include <cstdint>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "nvlf/ioctl.h"

namespace nvlf::daemon {

// Bytes that say "look up". Not one for each cause: they are thrown away by the reader.
class Notice {
public:
    // `ret_client_end` is for the client.
    [[nodiscard]] static Result<Notice> open(Fd& ret_client_end);
    void ring() const noexcept;

private:
    explicit Notice(Fd ours) : ours_{std::move(ours)} {}
    Fd ours_;
};

// One message an event; what does not fit is counted in the next that does.
class EventStream {
public:
    [[nodiscard]] static Result<EventStream> open(std::uint32_t mask, Fd& ret_client_end);
    void send(nvlf_event event) noexcept;

private:
    EventStream(std::uint32_t mask, Fd ours) : mask_{mask}, ours_{std::move(ours)} {}
    std::uint32_t mask_;
    std::uint32_t lost_ = 0;
    Fd ours_;
};

} // namespace nvlf::daemon
