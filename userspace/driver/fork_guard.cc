// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A fork is an event of the whole process, so its handlers need the list of everything they must close: one of the two
// process-wide tables of this library (address_space.hpp has the other). The list is intrusive and its lock is held
// across the fork, so that the child finds it whole without allocating.
#include "driver/fork_guard.hpp"

#include <pthread.h>

#include <utility>

namespace nvlf {
namespace {

pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
ForkGuard* list_head = nullptr;

// A failure (no memory) leaves a process whose forks are not guarded, which is no reason to refuse it a fabric.
pthread_once_t handlers_once = PTHREAD_ONCE_INIT;

} // namespace

void ForkGuard::before_fork() noexcept { pthread_mutex_lock(&list_lock); }
void ForkGuard::after_fork_in_parent() noexcept { pthread_mutex_unlock(&list_lock); }
void ForkGuard::after_fork_in_child() noexcept {
    for (ForkGuard* guard = list_head; guard != nullptr; guard = guard->next_) {
        guard->in_child_.store(true, std::memory_order_relaxed);
        guard->fd_.reset();
    }
    pthread_mutex_unlock(&list_lock);
}

ForkGuard::ForkGuard(Fd fd) noexcept : fd_{std::move(fd)} {
    pthread_once(&handlers_once, [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
    pthread_mutex_lock(&list_lock);
    next_ = list_head;
    previous_ = &list_head;
    if (next_ != nullptr) next_->previous_ = &next_;
    list_head = this;
    pthread_mutex_unlock(&list_lock);
}

ForkGuard::~ForkGuard() {
    pthread_mutex_lock(&list_lock);
    *previous_ = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    pthread_mutex_unlock(&list_lock);
}

} // namespace nvlf
