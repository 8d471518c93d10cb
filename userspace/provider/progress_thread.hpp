// SPDX-License-Identifier: MIT OR GPL-2.0-only
// progress_thread.hpp - FI_PROGRESS_AUTO: a thread of a domain's that drives its endpoints while the application does
// something else.
//
// It is one more caller of what the application's own reads call (endpoint_api.hpp), and sleeps as a blocking read does: on
// the endpoints' descriptors, announced as asleep, so that peers ring. What peers cause wakes it therefore. What the
// application causes by a call of its own, and no peer will ring for, is told by stir().
#pragma once

#include <pthread.h>

#include <memory>

#include "ep_fid.hpp"
#include "wait.hpp"

namespace nvlf::ofi {

class ProgressThread {
public:
    // Starts one for endpoints of this fabric, which must outlive it. 0 or -FI_E*.
    [[nodiscard]] static int start(nvlf_fabric* fabric, std::unique_ptr<ProgressThread>& ret_thread) noexcept;
    // Its endpoints have left. In a forked child there is no thread to end.
    ~ProgressThread();
    ProgressThread(const ProgressThread&) = delete;
    ProgressThread& operator=(const ProgressThread&) = delete;

    // 0 or -FI_E*. After remove() it does not touch the endpoint any more; the caller holds no lock of the endpoint's.
    [[nodiscard]] int add(Endpoint& endpoint) noexcept { return endpoints_.add(endpoint, wait_); }
    void remove(Endpoint& endpoint) noexcept { endpoints_.remove(endpoint, wait_); }

    // There is something to do that no peer rings for. Cheap while the thread is awake.
    void stir() noexcept { wait_.notify(); }

private:
    explicit ProgressThread(nvlf_fabric* fabric) noexcept : fabric_{fabric} {}
    void run() noexcept;
    void look_for_a_while() noexcept;
    void sleep() noexcept;

    nvlf_fabric* const fabric_;
    const Generation generation_;
    WaitObject wait_;
    EndpointList endpoints_{true};
    pthread_t thread_{};
};

} // namespace nvlf::ofi
