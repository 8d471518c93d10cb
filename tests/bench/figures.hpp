// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What one run of a measurement found, and what several runs of it come to. Times are in nanoseconds throughout; rates and
// bandwidths are made of them where they are printed. (One measurement is not of time: it says so.)
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace nvlf::bench {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double ns_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration<double, std::nano>(end - start).count();
}

struct Figures {
    double value = 0; // Nanoseconds of one operation. Where single ones were timed: the median.
    double p99 = 0;   // 0: single ones were not timed.
};

// The upper one of two in the middle; 0 of none.
[[nodiscard]] inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Round trips, as the time between one stamp and the next: one look at the clock each, which makes it a part of every
// figure alike, the bare machine's included.
class RoundTrips {
public:
    explicit RoundTrips(std::uint64_t expected) { ns_.reserve(expected); }
    void start() { last_ = Clock::now(); }
    void stamp() {
        const auto now = Clock::now();
        ns_.push_back(ns_between(last_, now));
        last_ = now;
    }
    // Without the first tenth: those meet cold caches.
    [[nodiscard]] Figures whole() {
        ns_.erase(ns_.begin(), ns_.begin() + static_cast<std::ptrdiff_t>(ns_.size() / 10));
        if (ns_.empty()) return {};
        return {at(0.5), at(0.99)};
    }
    [[nodiscard]] Figures half() {
        const Figures trip = whole();
        return {trip.value / 2, trip.p99 / 2};
    }

private:
    double at(double part) {
        const auto which = ns_.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(ns_.size() - 1) * part);
        std::nth_element(ns_.begin(), which, ns_.end());
        return *which;
    }

    std::vector<double> ns_{};
    Clock::time_point last_{};
};

} // namespace nvlf::bench
