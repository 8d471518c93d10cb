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

// Enough to keep both ends busy, not so much that large messages overflow every cache.
std::uint64_t window(std::size_t bytes) { return bytes <= 4096 ? 256 : bytes <= 65536 ? 64 : 16; }

// `send` answers whether there was room.
template <class Send>
Figures streamed(Member& member, const Job& job, Send&& send) {
    constexpr int burst = 64; // Sends between two looks at the queue.
    Endpoint& endpoint = member.endpoint;
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
            if (!send()) break;
        endpoint.progress();
        post();
    }
    endpoint.flush();
    member.meet(); // Sent is not received.
    const double ns = ns_between(start, Clock::now());
    if (incoming > 0) member.verify(member.arrivals.data(), job.bytes, job.count);
    return {ns / static_cast<double>(job.count), 0};
}

} // namespace

Figures ping_pong(Member& member, const Job& job) {
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
        endpoint.wait_for(Kind::received, before + i);
        if (i < job.count) post(); // Before the answer: so that what comes next finds a receive.
        if (!member.first()) send();
        times.stamp();
    }
    endpoint.flush();
    member.meet();
    member.verify(member.arrivals.data(), job.bytes, job.count);
    return times.half();
}

Figures wake(Member& member, const Job& job) {
    constexpr std::chrono::microseconds pause{50}; // In which the other one has fallen asleep.
    Endpoint& endpoint = member.endpoint;
    const fi_addr_t other = member.other();
    const std::uint64_t before = endpoint.count(Kind::received);
    char word = 0;
    RoundTrips times{job.count};
    endpoint.receive(&word, sizeof word, tag);
    member.meet();
    for (std::uint64_t i = 1; i <= job.count; ++i) {
        if (member.first()) {
            for (const auto until = Clock::now() + pause; Clock::now() < until;) {}
            times.start();
            endpoint.send(other, &word, sizeof word, tag);
            endpoint.wait_for(Kind::received, before + i);
            times.stamp();
        } else {
            while (endpoint.count(Kind::received) < before + i)
                if (!endpoint.progress()) endpoint.sleep();
        }
        if (i < job.count) endpoint.receive(&word, sizeof word, tag);
        if (!member.first()) endpoint.send(other, &word, sizeof word, tag);
    }
    member.meet();
    return times.whole();
}

Figures stream(Member& member, const Job& job) {
    const fi_addr_t other = member.other();
    return streamed(member, job, [&] { return member.endpoint.try_send(other, member.buffer.data(), job.bytes, tag); });
}

Figures inject(Member& member, const Job& job) {
    const fi_addr_t other = member.other();
    return streamed(member, job,
                    [&] { return member.endpoint.try_inject(other, member.buffer.data(), job.bytes, tag); });
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
