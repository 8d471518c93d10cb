// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Work without the target's code: writes, reads and atomics. The target progresses all the same, for providers that need
// it to; while it waits for the end it looks at its queue.
#include "work.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <rdma/fi_atomic.h>

namespace nvlf::bench {
namespace {

using Kind = Endpoint::Kind;

// Who acts on whose memory, in a job.
struct Roles {
    Roles(Member& member, const Job& job) : acts{member.first() || job.both}, is_acted_on{!member.first() || job.both} {
        const auto found = member.memories.find(job.memory);
        if (found == member.memories.end()) throw NotOffered{"no memory from " + job.memory};
        mine = found->second.data();
        theirs = member.remote.at(1 - member.rank).at(job.memory);
    }
    bool acts;
    bool is_acted_on;
    std::byte* mine = nullptr; // What the other side acts on.
    RemoteMemory theirs{};
};

// Calls `post`, which answers what libfabric does, until `count` operations have completed.
template <class Post>
void pump(Endpoint& endpoint, const Job& job, Post&& post) {
    const std::uint64_t most = job.bytes <= 65536 ? 64 : 16; // In flight.
    const std::uint64_t before = endpoint.count(Kind::one_sided);
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (done < job.count) {
        while (posted < job.count && posted - done < most) {
            const ssize_t result = post();
            if (result == -FI_EAGAIN) break;
            check(result, job.work.c_str());
            ++posted;
        }
        endpoint.progress();
        done = endpoint.count(Kind::one_sided) - before;
    }
}

template <class Post>
Figures timed(Member& member, const Job& job, const Roles& roles, Post&& post) {
    member.meet();
    const auto start = Clock::now();
    if (roles.acts) pump(member.endpoint, job, post);
    member.meet(); // Who is acted on progresses here.
    return {ns_between(start, Clock::now()) / static_cast<double>(job.count), 0};
}

void need_atomics(const Member& member) {
    if ((member.endpoint.info().caps & FI_ATOMIC) == 0) throw NotOffered{member.options.provider + " has no atomics"};
}

// Ones were added: their number is the sum.
template <class Post>
Figures adding(Member& member, const Job& job, const Roles& roles, Post&& post) {
    std::memset(roles.mine, 0, sizeof(std::uint64_t));
    const Figures figures = timed(member, job, roles, post);
    std::uint64_t sum = 0;
    std::memcpy(&sum, roles.mine, sizeof sum);
    if (roles.is_acted_on && sum != job.count)
        throw std::runtime_error{"of " + std::to_string(job.count) + " additions " + std::to_string(sum) +
                                 " are there"};
    return figures;
}

} // namespace

Figures write(Member& member, const Job& job) {
    const Roles roles{member, job};
    member.fill(job.bytes, job.count);
    std::memset(roles.mine, 0, job.bytes);
    const Figures figures = timed(member, job, roles, [&] {
        return fi_write(member.endpoint.ep(), member.buffer.data(), job.bytes, nullptr, member.other(),
                        roles.theirs.address, roles.theirs.key, Endpoint::context(Kind::one_sided));
    });
    if (roles.is_acted_on) member.verify(roles.mine, job.bytes, job.count);
    return figures;
}

Figures read(Member& member, const Job& job) {
    const Roles roles{member, job};
    member.fill(job.bytes, job.count);
    std::memcpy(roles.mine, member.buffer.data(), job.bytes);
    std::memset(member.arrivals.data(), 0, job.bytes);
    const Figures figures = timed(member, job, roles, [&] {
        return fi_read(member.endpoint.ep(), member.arrivals.data(), job.bytes, nullptr, member.other(),
                       roles.theirs.address, roles.theirs.key, Endpoint::context(Kind::one_sided));
    });
    if (roles.acts) member.verify(member.arrivals.data(), job.bytes, job.count);
    return figures;
}

Figures add(Member& member, const Job& job) {
    need_atomics(member);
    const Roles roles{member, job};
    const std::uint64_t one = 1;
    return adding(member, job, roles, [&] {
        return fi_atomic(member.endpoint.ep(), &one, 1, nullptr, member.other(), roles.theirs.address, roles.theirs.key,
                         FI_UINT64, FI_SUM, Endpoint::context(Kind::one_sided));
    });
}

Figures fetch_add(Member& member, const Job& job) {
    need_atomics(member);
    const Roles roles{member, job};
    const std::uint64_t one = 1;
    std::uint64_t before = 0;
    return adding(member, job, roles, [&] {
        return fi_fetch_atomic(member.endpoint.ep(), &one, 1, nullptr, &before, nullptr, member.other(),
                               roles.theirs.address, roles.theirs.key, FI_UINT64, FI_SUM,
                               Endpoint::context(Kind::one_sided));
    });
}

} // namespace nvlf::bench
