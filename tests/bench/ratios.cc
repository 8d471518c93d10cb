// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See ratios.hpp.
#include "ratios.hpp"

#include "plan.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nvlf::bench {
namespace {

std::optional<double> inverse(std::optional<double> value) {
    return value && *value > 0 ? std::optional{1 / *value} : std::nullopt;
}

// Writes to malloc memory, the size at which they compare worst.
std::optional<double> worst_write_to_malloc(const Table& table) {
    std::optional<double> worst;
    for (const std::size_t bytes : one_sided_sizes) {
        const std::string row = row_id("write", bytes);
        const auto rate = inverse(table.ratio(row, "nvlf malloc", row, "shm"));
        if (rate && (!worst || *rate < *worst)) worst = rate;
    }
    return worst;
}

} // namespace

std::optional<bool> Ratio::holds() const {
    if (!value) return std::nullopt;
    if (comparison == "<=") return *value <= target;
    if (comparison == ">=") return *value >= target;
    return *value < target;
}

std::vector<Ratio> ratios(const Table& table) {
    const auto time = [&](const std::string& row, const char* other) { return table.ratio(row, "nvlf", row, other); };
    const auto rate = [&](const std::string& row, const char* other) { return inverse(time(row, other)); };
    const std::string trip = row_id("ping_pong", 8);
    const std::string mib = row_id("write", 1 << 20);
    return {
        {"lat8_vs_cacheline", "8 B half round trip / a cache line's", "<=", 1.4,
         table.ratio(trip, "nvlf", "cache_line", "bare")},
        {"lat8_vs_shm", "8 B half round trip / shm's", "<=", 0.5, time(trip, "shm")},
        {"stream8_vs_shm", "8 B messages a second / shm's", ">=", 8, rate(row_id("stream", 8), "shm")},
        {"rma_write8_vs_shm", "8 B writes a second, fabric memory / shm's", ">=", 30, rate(row_id("write", 8), "shm")},
        {"rma_write4k_vs_shm", "4 KiB writes a second, fabric memory / shm's", ">=", 10,
         rate(row_id("write", 4096), "shm")},
        {"rma_write1m_vs_shm", "1 MiB writes a second, fabric memory / shm's", ">=", 1, rate(mib, "shm")},
        {"rma_write1m_vs_memcpy", "1 MiB writes a second, fabric memory / memcpy's", ">=", 0.9,
         inverse(table.ratio(mib, "nvlf", row_id("memcpy", 1 << 20), "bare"))},
        {"rma_malloc_min_vs_shm", "writes a second, malloc memory / shm's, worst size", ">=", 1,
         worst_write_to_malloc(table)},
        {"lat64k_vs_shm", "64 KiB half round trip / shm's", "<=", 1, time(row_id("ping_pong", 65536), "shm")},
        {"lat1m_vs_shm", "1 MiB half round trip / shm's", "<=", 1, time(row_id("ping_pong", 1 << 20), "shm")},
        {"threadsafe_vs_domain", "8 B half round trip, FI_THREAD_SAFE / DOMAIN", "<=", 1.3,
         table.ratio("thread_safe", "nvlf", trip, "nvlf")},
        {"fd_wake_vs_eventfd", "a message to a sleeper and back / eventfd and line", "<=", 2,
         table.ratio("wake", "nvlf", "eventfd", "bare")},
        {"alltoall8_vs_vader", "MPI all-to-all of 8 on 2 processors / vader's", "<=", 1.5,
         time("mpi_all_to_all", "vader")},
        {"idle_endpoint_bytes", "shared memory of an idle endpoint", "<", 1048576, table.value("footprint", "nvlf")},
    };
}

std::string text(const std::vector<Ratio>& ratios) {
    std::string text = fmt::format("{:<24}{:<54}{:>10}   target\n", "ratio", "", "value");
    for (const Ratio& ratio : ratios) {
        const auto holds = ratio.holds();
        text += fmt::format("{:<24}{:<54}{:>10}   {:<2} {:<9g}{}\n", ratio.key, ratio.meaning,
                            ratio.value ? fmt::format("{:.4g}", *ratio.value) : "-", ratio.comparison, ratio.target,
                            !holds   ? "not measured"
                            : *holds ? "holds"
                                     : "MISSED");
    }
    return text;
}

nlohmann::json json(const std::vector<Ratio>& ratios) {
    nlohmann::json all;
    for (const Ratio& ratio : ratios) {
        nlohmann::json& one = all[ratio.key];
        one = {{"target", ratio.target}, {"comparison", ratio.comparison}, {"meaning", ratio.meaning}};
        one["value"] = ratio.value ? nlohmann::json(*ratio.value) : nlohmann::json();
        one["holds"] = ratio.holds() ? nlohmann::json(*ratio.holds()) : nlohmann::json();
    }
    return all;
}

} // namespace nvlf::bench
