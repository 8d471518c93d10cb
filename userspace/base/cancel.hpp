// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cancel.hpp - keeps pthread_cancel away from what must be finished.
//
// read, write, poll, close, sendmsg and many others are cancellation points: a thread that somebody cancelled unwinds
// there, out of the middle of whatever called them. Our callers hold locks, have half a conversation behind them, and
// promise not to throw, where unwinding is the end of the process. So nothing here may be cancelled, except a thread
// that sleeps in a blocking call, which its canceller counts on: it lets cancellation in for as long as it sleeps.
#pragma once

#include <pthread.h>

#include <utility>

namespace nvlf {

class Uncancellable {
public:
    Uncancellable() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancellable() { ::pthread_setcancelstate(before_, nullptr); }
    Uncancellable(const Uncancellable&) = delete;
    Uncancellable& operator=(const Uncancellable&) = delete;

    // Runs `sleep` as cancellable as the thread was before. Whoever is on the stack must stand being unwound.
    template <class F>
    void but_for(F&& sleep) const {
        struct Again {
            ~Again() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }
        } const again;
        ::pthread_setcancelstate(before_, nullptr);
        std::forward<F>(sleep)();
    }

private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

} // namespace nvlf
