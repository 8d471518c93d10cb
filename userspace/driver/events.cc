// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The stream of events. One a fabric; endpoints wake for it as well, because a thread sleeps on one descriptor.
#include <fcntl.h>
#include <unistd.h>

#include <mutex>

#include "base/cancel.hpp"
#include "driver/endpoint.hpp"
#include "driver/fabric.hpp"

using namespace nvlf;

int nvlf_events(nvlf_fabric* fabric, uint32_t mask) noexcept {
    if (fabric == nullptr) return -EINVAL;
    nvlf_ioc_events body{};
    body.mask = mask;
    if (const Errno error = fabric->carrier->ask(NVLF_CMD_EVENTS, body); error.failed()) return error.negative();
    Fd events = take_fd(body.event_fd);
    if (!events) return nonsense(*fabric);
    const int flags = ::fcntl(events.get(), F_GETFL);
    if (flags < 0 || ::fcntl(events.get(), F_SETFL, flags | O_NONBLOCK) != 0) return last_errno().negative();
    const std::lock_guard guard{fabric->events_lock};
    // Closing the old stream takes it out of every epoll that watches it.
    fabric->events = std::move(events);
    for (nvlf_ep* ep : fabric->endpoints)
        if (const Errno error = watch_events(*ep, fabric->events.get()); error.failed()) return error.negative();
    return 0;
}

int nvlf_event_fd(const nvlf_fabric* fabric) noexcept {
    if (fabric == nullptr) return -EINVAL;
    const std::lock_guard guard{fabric->events_lock};
    return fabric->events ? fabric->events.get() : -ENOENT;
}

int nvlf_event_read(nvlf_fabric* fabric, nvlf_event* ret_event) noexcept {
    if (fabric == nullptr || ret_event == nullptr) return -EINVAL;
    if (fabric->carrier->in_forked_child()) return -EOWNERDEAD;
    const Uncancellable whole;
    const std::lock_guard guard{fabric->events_lock};
    if (!fabric->events) return -ENOENT;
    nvlf_event event{};
    ssize_t got = 0;
    do {
        got = ::read(fabric->events.get(), &event, sizeof event);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return errno == ECONNRESET ? -ENODEV : last_errno().negative();
    if (got == 0) return -ENODEV;
    if (got != sizeof event) return nonsense(*fabric);
    *ret_event = event;
    return 0;
}
