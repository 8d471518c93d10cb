// SPDX-License-Identifier: MIT OR GPL-2.0-only
// lane_bench - what a lane costs beside what the machine itself costs, in one run.
//
// Machines drift, so the only figures worth keeping are ratios of two measurements that took turns on the same two
// cores: the half round trip of one slot against that of one bare cache line, and the bandwidth of the data ring against
// memcpy. Five rounds in turn, the median of each. Usage: lane_bench [JSON file]
#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/lane.hpp"

namespace {

using namespace nvlf;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 5;
constexpr std::uint64_t trips = 100'000;
constexpr std::uint64_t messages = 1'000'000;
constexpr std::uint32_t piece = 32768;
constexpr std::uint64_t pieces = 20'000;

double ns_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The processors that this process may use, asked before anything is pinned: threads inherit a pin.
std::vector<int> allowed_processors() {
    std::vector<int> result;
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return result;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &allowed)) result.push_back(cpu);
    return result;
}

bool pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one) == 0;
}

int second_processor = -1;

// Runs `other` on the second processor while `mine` runs here, which returns the figure.
template <class Mine, class Other>
double beside(Mine&& mine, Other&& other) {
    std::atomic<bool> go{false};
    std::thread thread{[&] {
        (void)pin(second_processor);
        while (!go.load()) {}
        other();
    }};
    go.store(true);
    const double figure = mine();
    thread.join();
    return figure;
}

struct alignas(128) Line {
    std::atomic<std::uint64_t> word{0};
};

double cache_line_half_trip_ns() {
    auto lines = std::make_unique<std::array<Line, 2>>();
    auto& [there, back] = *lines;
    return beside(
        [&] {
            const auto start = Clock::now();
            for (std::uint64_t i = 1; i <= trips; ++i) {
                there.word.store(i, std::memory_order_release);
                while (back.word.load(std::memory_order_acquire) != i) {}
            }
            return ns_since(start) / (2.0 * trips);
        },
        [&] {
            for (std::uint64_t i = 1; i <= trips; ++i) {
                while (there.word.load(std::memory_order_acquire) != i) {}
                back.word.store(i, std::memory_order_release);
            }
        });
}

void send_slot(LaneProducer& producer, std::uint64_t i) {
    while (producer.room(0).failed()) {}
    nvlf_slot& slot = producer.slot();
    slot.tag = i;
    slot.len = 8;
    std::memcpy(slot.data, &i, sizeof i);
    producer.publish();
}

nvlf_slot take_slot(LaneConsumer& consumer) {
    nvlf_slot slot;
    while (!consumer.pop(slot)) {}
    return slot;
}

double lane_half_trip_ns() {
    auto lanes = std::make_unique<std::array<nvlf_lane, 2>>();
    LaneProducer there{(*lanes)[0]};
    LaneConsumer back{(*lanes)[1]};
    return beside(
        [&] {
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < trips; ++i) {
                send_slot(there, i);
                (void)take_slot(back);
            }
            return ns_since(start) / (2.0 * trips);
        },
        [&] {
            LaneConsumer in{(*lanes)[0]};
            LaneProducer out{(*lanes)[1]};
            for (std::uint64_t i = 0; i < trips; ++i) send_slot(out, take_slot(in).tag);
        });
}

double lane_stream_million_per_s() {
    auto lane = std::make_unique<nvlf_lane>();
    LaneProducer producer{*lane};
    return beside(
        [&] {
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < messages; ++i) send_slot(producer, i);
            while (std::atomic_ref{lane->credit.slots}.load(std::memory_order_acquire) < messages / 64 * 64) {}
            return 1e3 * messages / ns_since(start);
        },
        [&] {
            LaneConsumer consumer{*lane};
            for (std::uint64_t i = 0; i < messages; ++i) (void)take_slot(consumer);
        });
}

double lane_bandwidth_gb_per_s() {
    auto lane = std::make_unique<nvlf_lane>();
    LaneProducer producer{*lane};
    std::vector<std::byte> from(piece, std::byte{1});
    return beside(
        [&] {
            const auto start = Clock::now();
            for (std::uint64_t i = 0; i < pieces; ++i) {
                while (producer.room(piece).failed()) {}
                std::memcpy(producer.payload(piece), from.data(), piece);
                producer.publish();
            }
            return static_cast<double>(pieces * piece) / ns_since(start);
        },
        [&] {
            LaneConsumer consumer{*lane};
            std::vector<std::byte> to(piece);
            for (std::uint64_t i = 0; i < pieces; ++i) {
                (void)take_slot(consumer);
                const auto payload = consumer.payload(piece);
                std::memcpy(to.data(), payload->data(), payload->size());
                consumer.give_credit();
            }
        });
}

double memcpy_gb_per_s() {
    std::vector<std::byte> from(piece, std::byte{1});
    std::vector<std::byte> to(piece);
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < pieces; ++i) {
        std::memcpy(to.data(), from.data(), piece);
        asm volatile("" : : "r"(to.data()) : "memory"); // Or the copies would be one.
    }
    return static_cast<double>(pieces * piece) / ns_since(start);
}

struct Row {
    const char* key;
    const char* what;
    double (*measure)();
    std::vector<double> seen{};
    [[nodiscard]] double median() const {
        std::vector<double> sorted = seen;
        std::sort(sorted.begin(), sorted.end());
        return sorted[sorted.size() / 2];
    }
};

} // namespace

int main(int argc, char** argv) {
    const std::vector<int> processors = allowed_processors();
    if (processors.size() < 2 || !pin(processors[0])) {
        fmt::print(stderr, "lane_bench: needs two processors to pin to\n");
        return 1;
    }
    second_processor = processors[1];
    std::array<Row, 5> rows{
        {{"cache_line_half_trip_ns", "one cache line, half round trip, ns", cache_line_half_trip_ns},
         {"lane_half_trip_ns", "one slot of a lane, half round trip, ns", lane_half_trip_ns},
         {"lane_stream_million_per_s", "slots streamed, million/s", lane_stream_million_per_s},
         {"lane_bandwidth_gb_per_s", "data ring, both copies, GB/s", lane_bandwidth_gb_per_s},
         {"memcpy_gb_per_s", "memcpy of the same pieces, GB/s", memcpy_gb_per_s}}};
    for (int round = 0; round < rounds; ++round)
        for (Row& row : rows) row.seen.push_back(row.measure());
    nlohmann::json json;
    for (const Row& row : rows) {
        fmt::print("{:<45}{:>10.3g}\n", row.what, row.median());
        json[row.key] = row.median();
    }
    const double trip = rows[1].median() / rows[0].median();
    const double copy = rows[3].median() / rows[4].median();
    fmt::print("{:<45}{:>10.2f}\n{:<45}{:>10.2f}\n", "lane / cache line", trip, "data ring / memcpy", copy);
    json["ratios"] = {{"lane_vs_cacheline", trip}, {"lane_data_vs_memcpy", copy}};
    if (argc > 1) std::ofstream{argv[1]} << json.dump(2) << '\n';
    return 0;
}
