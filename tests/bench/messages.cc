// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Work with tagged messages.
#include "work.hpp"

#include <algorithm>
#include <cstring>

namespace nvlf::bench {
namespace {

constexpr std::uint64_t tag = 1;

using Kind = Endpoint::Kind;

// `wait(goal)` returns when so many messages have been received.
template <class Wait>
Figures trips(Member& member, const Job& job, Wait&& wait) {
    Endpoint& endpoint = member.endpoint;
    const fi_addr_t other = member.other();
    member.fill(job.bytes, job.count);
    std::memset(member.arrivals.data(), 0, job.bytes);
    const std::uint64_t before = endpoint.count(Kind::received);
    const auto post = [&] { endpoint.receive(member.arrivals.data(), job.bytes, tag); };
    const auto send = [&] { endpoint.send(other, member.buffer.data(), job.bytes, tag); };
    RoundTrips times{job.count};
    post();
    member.meet();
    times.start();
    for (std::uint64_t i = 1; i <= job.count; ++i) {
        if (member.first()) send();
        wait(before + i);
        if (i < job.count) post(); // Before the answer: so that what comes next finds a receive.
        if (!member.first()) send();
        times.stamp();
    }
    endpoint.flush();
    member.meet();
    member.verify(member.arrivals.data(), job.bytes, job.count);
    return times.half();
}

// Enough to keep both ends busy, not so much that large messages overflow every cache.
std::uint64_t window(std::size_t bytes) { return bytes <= 4096 ? 256 : bytes <= 65536 ? 64 : 16; }

} // namespace

Figures ping_pong(Member& member, const Job& job) {
    return trips(member, job, [&](std::uint64_t goal) { member.endpoint.wait_for(Kind::received, goal); });
}

Figures wake(Member& member, const Job& job) {
    return trips(member, job, [&](std::uint64_t goal) {
        while (member.endpoint.count(Kind::received) < goal)
            if (!member.endpoint.progress()) member.endpoint.sleep();
    });
}

Figures stream(Member& member, const Job& job) {
    constexpr int burst = 64; // Sends between two looks at the queue.
    Endpoint& endpoint = member.endpoint;
    const fi_addr_t other = member.other();
    const std::uint64_t outgoing = member.first() || job.both ? job.count : 0;
    const std::uint64_t incoming = !member.first() || job.both ? job.count : 0;
    const std::uint64_t most = window(job.bytes);
    const std::uint64_t before = endpoint.count(Kind::received);
    member.fill(job.bytes, job.count);
    std::memset(member.arrivals.data(), 0, job.bytes);

    std::uint64_t sent = 0;
    std::uint64_t posted = 0;
    const auto received = [&] { return endpoint.count(Kind::received) - before; };
    const auto post = [&] {
        for (; posted < incoming && posted - received() < most; ++posted)
            endpoint.receive(member.arrivals.data(), job.bytes, tag);
    };
    post();
    member.meet();
    const auto start = Clock::now();
    while (sent < outgoing || received() < incoming) {
        for (int i = 0; i < burst && sent < outgoing && endpoint.sends_in_flight() < most; ++i, ++sent)
            if (!endpoint.try_send(other, member.buffer.data(), job.bytes, tag)) break;
        endpoint.progress();
        post();
    }
    endpoint.flush();
    member.meet(); // Sent is not received.
    const double ns = ns_between(start, Clock::now());
    if (incoming > 0) member.verify(member.arrivals.data(), job.bytes, job.count);
    return {ns / static_cast<double>(job.count), 0};
}

Figures all_to_all(Member& member, const Job& job) {
    Endpoint& endpoint = member.endpoint;
    const std::size_t others = member.size - 1;
    member.fill(job.bytes, job.count);
    std::memset(member.arrivals.data(), 0, job.bytes);
    member.meet();
    const auto start = Clock::now();
    for (std::uint64_t round = 1; round <= job.count; ++round) {
        // A tag a round: who is fast may be one ahead of who is slow.
        const std::uint64_t goal = endpoint.count(Kind::received) + others;
        for (std::size_t i = 0; i < others; ++i) endpoint.receive(member.arrivals.data(), job.bytes, round);
        for (std::size_t i = 1; i <= others; ++i) // Everybody begins at another one.
            endpoint.send(endpoint.peer((member.rank + i) % member.size), member.buffer.data(), job.bytes, round);
        endpoint.wait_for(Kind::received, goal);
    }
    const double ns = ns_between(start, Clock::now());
    endpoint.flush();
    member.meet();
    member.verify(member.arrivals.data(), job.bytes, job.count);
    return {ns / static_cast<double>(job.count), 0};
}

} // namespace nvlf::bench
