// SPDX-License-Identifier: MIT OR GPL-2.0-only
// progress_thread.cc - see progress_thread.hpp.
#include "progress_thread.hpp"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <new>
#include <vector>

#include "nvlf/nvlf.h"
#include "params.hpp"

namespace nvlf::ofi {
namespace {

// No signal of the application's is delivered to a thread that it does not know: those who are born here inherit that.
class SignalsBlocked {
public:
    SignalsBlocked() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

// A child must not inherit a lock of an endpoint's that nobody will give back: threads that are awake share this one, and
// who forks has it alone. He goes first: threads that are never all asleep would keep him out for ever.
pthread_rwlock_t forks = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

int hold_while_forking() noexcept {
    static const int held =
        ::pthread_atfork([] { ::pthread_rwlock_wrlock(&forks); }, [] { ::pthread_rwlock_unlock(&forks); },
                         [] { ::pthread_rwlock_unlock(&forks); });
    return held == 0 ? count_forks() : -FI_ENOMEM;
}

struct Awake {
    Awake() noexcept { ::pthread_rwlock_rdlock(&forks); }
    ~Awake() { ::pthread_rwlock_unlock(&forks); }
    Awake(const Awake&) = delete;
    Awake& operator=(const Awake&) = delete;
};

struct Asleep {
    Asleep() noexcept { ::pthread_rwlock_unlock(&forks); }
    ~Asleep() { ::pthread_rwlock_rdlock(&forks); }
    Asleep(const Asleep&) = delete;
    Asleep& operator=(const Asleep&) = delete;
};

} // namespace

int ProgressThread::start(nvlf_fabric* fabric, std::unique_ptr<ProgressThread>& ret_thread) noexcept {
    if (const int ret = hold_while_forking(); ret != 0) return ret;
    std::unique_ptr<ProgressThread> made{new (std::nothrow) ProgressThread{fabric}};
    if (made == nullptr) return -FI_ENOMEM;
    if (const int ret = made->wait_.open(FI_WAIT_UNSPEC, nullptr); ret != 0) return ret;
    const SignalsBlocked blocked;
    const auto body = [](void* self) -> void* {
        static_cast<ProgressThread*>(self)->run();
        return nullptr;
    };
    if (const int error = ::pthread_create(&made->thread_, nullptr, body, made.get()); error != 0) {
        made->thread_ = {};
        return -error;
    }
    ::pthread_setname_np(made->thread_, "nvlf-progress");
    ret_thread = std::move(made);
    return 0;
}

ProgressThread::~ProgressThread() {
    if (thread_ == pthread_t{} || generation_.inherited()) return;
    wait_.signal();
    ::pthread_join(thread_, nullptr);
}

// Once the carrier is gone nothing comes any more; the endpoints have heard of it as they were disarmed.
void ProgressThread::run() noexcept {
    const Awake awake;
    while (!wait_.take_signal() && nvlf_poll_alive(fabric_) != 0) {
        look_for_a_while();
        sleep();
    }
}

// To fall asleep and to be woken costs some microseconds, here and at the peer: what follows at once is waited for.
void ProgressThread::look_for_a_while() noexcept {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds{params().wait_spin_us};
    do {
        endpoints_.progress();
        const Asleep asleep;
        ::sched_yield();
    } while (std::chrono::steady_clock::now() < until);
}

void ProgressThread::sleep() noexcept {
    const WaitObject::Ticket ticket = wait_.begin();
    endpoints_.arm();
    endpoints_.progress(); // What came before they were armed rang nobody.
    std::vector<pollfd> news;
    if (!wait_.signalled() && !endpoints_.ready() && news_of({wait_, &endpoints_, fabric_}, news)) {
        const Asleep asleep;
        ::poll(news.data(), news.size(), -1); // Interrupted or woken: we look again in any case.
    }
    endpoints_.disarm();
    wait_.end(ticket);
}

} // namespace nvlf::ofi
