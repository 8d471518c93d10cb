// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Errands: what a process of a soak does beside its traffic, each in a corner of its own (a domain, two endpoints that know each
// other), so that what comes of it is known. Traffic tries the calls that cross processes, with peers that die; errands try
// all the others, while the process they run in is stopped and killed, and nvlfd is replaced.
//
// An errand throws Finding when something is not as it must be, and test::FabricError when a call fails: the supervisor knows
// whether the fabric may be gone.
#pragma once

#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "soak/station.hpp"
#include "soak/traffic.hpp"

namespace nvlf::soak {

using test::check;
using test::FidPtr;

template <class F, class Open>
FidPtr<F> open_object(const char* what, Open&& call) {
    F* object = nullptr;
    check(call(&object), what);
    return FidPtr<F>{object};
}

inline void require(bool right, const char* what) {
    if (!right) throw Finding{what};
}

// How a corner is set up.
struct CornerOptions {
    std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_MULTI_RECV;
    enum fi_wait_obj wait = FI_WAIT_UNSPEC;
    enum fi_cq_format format = FI_CQ_FORMAT_TAGGED;
    enum fi_av_type av = FI_AV_TABLE;
    std::size_t contexts = 1;      // FI_SHARED_CONTEXT: see errands_contexts.cc.
    std::uint64_t counted = 0;     // FI_SEND, FI_RECV, ...: counter of both endpoints.
    bool selective = false;        // The queue hears of what asks for it alone.
    std::uint64_t rx_ctx_bits = 0; // Of addresses.
};

struct Corner {
    explicit Corner(Random& random, const CornerOptions& options = {}, std::size_t endpoints = 2);

    // An endpoint that is bound, enabled, and known to all.
    void add_endpoint();
    // Until `done` says so; drives everything.
    void until(const char* what, const std::function<bool()>& done);
    // The next completion. An error is a finding, or the fabric's end.
    fi_cq_tagged_entry next(const char* what);
    // Calls until it is taken.
    void post(const char* what, const std::function<ssize_t()>& call);
    // One that lives as long as the corner: what waits for a counter keeps it from closing, until its endpoint has closed.
    [[nodiscard]] fid_cntr* lasting_counter();
    [[nodiscard]] FidPtr<fid_cntr> counter(enum fi_wait_obj wait = FI_WAIT_UNSPEC, fid_wait* set = nullptr) const;
    [[nodiscard]] FidPtr<fid_mr> registered(std::span<char> memory, std::uint64_t key) const;
    [[nodiscard]] std::uint64_t remote(const FidPtr<fid_mr>& mr, const void* address, const void* base) const;

    const CornerOptions how;
    test::InfoPtr info;
    FidPtr<fid_fabric> fabric;
    FidPtr<fid_eq> eq;
    FidPtr<fid_domain> domain;
    FidPtr<fid_av> av;
    FidPtr<fid_cq> cq;
    FidPtr<fid_cntr> cntr;
    std::vector<FidPtr<fid_cntr>> counters;
    std::vector<FidPtr<fid_ep>> ep;
    std::vector<fi_addr_t> to;
};

// Bytes that follow from a number.
[[nodiscard]] std::vector<char> bytes_of(std::uint64_t number, std::size_t count);

struct Errand {
    const char* name;
    void (*run)(Random& random);
};
[[nodiscard]] std::span<const Errand> errands() noexcept;

// errands_messages.cc
void every_form_of_message(Random& random);
void receives_of_every_kind(Random& random);
// errands_one_sided.cc
void every_form_of_one_sided(Random& random);
void every_form_of_atomic(Random& random);
void registrations(Random& random);
// errands_queues.cc
void queues_and_counters(Random& random);
void event_queue(Random& random);
void poll_and_wait_sets(Random& random);
// errands_work.cc
void triggered_operations(Random& random);
void deferred_work(Random& random);
// errands_contexts.cc
void shared_contexts(Random& random);
void scalable_endpoints(Random& random);
// errands_groups.cc
void collectives(Random& random);
// errands_addresses.cc
void address_vectors(Random& random);

} // namespace nvlf::soak
