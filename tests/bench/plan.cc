// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See plan.hpp.
#include "plan.hpp"

#include "lane.hpp"
#include "machine.hpp"
#include "others.hpp"

#include <fmt/format.h>

namespace nvlf::bench {
namespace {

// The bare figures take what the budget allows, too; that they are of known order saves measuring how often that is.
std::uint64_t times_in(const Ground& ground, double about_ns) {
    return static_cast<std::uint64_t>(std::chrono::duration<double, std::nano>(ground.budget).count() / about_ns) + 1;
}

void add_machine(Table& table, const Ground& ground) {
    table.row({"cache_line", "one cache line, half round trip"});
    table.cell("bare", [&] { return cache_line(ground.processors, times_in(ground, 600)); });
    table.row({"lane_trip", "one slot of a lane, half round trip"});
    table.cell("bare", [&] { return lane_trip(ground.processors, times_in(ground, 800)); });
    table.row({"lane_stream", "slots of a lane, streamed", Unit::million_per_s});
    table.cell("bare", [&] { return lane_stream(ground.processors, times_in(ground, 50)); });
    table.row({"lane_pieces", "pieces of 32 KiB through a lane", Unit::gb_per_s, lane_piece});
    table.cell("bare", [&] { return lane_pieces(ground.processors, times_in(ground, 2000)); });
}

void add_messages(Table& table, Teams& teams) {
    for (const std::size_t bytes : message_sizes) {
        table.row({row_id("ping_pong", bytes), "tagged, half round trip, " + size_name(bytes)});
        const Job job{.work = "ping_pong", .bytes = bytes};
        table.cell("nvlf", [&teams, job] { return teams.nvlf.measure(job); });
        table.cell("shm", [&teams, job] { return teams.shm.measure(job); });
        table.cell("tcp", [&teams, job] { return teams.tcp.measure(job); });
        if (bytes != message_sizes.front()) continue;
        table.row({"thread_safe", "  the same under FI_THREAD_SAFE"});
        table.cell("nvlf", [&teams, job] { return teams.nvlf_thread_safe.measure(job); });
    }
    table.row({row_id("inject", 8), "tagged stream by inject, 8 B", Unit::million_per_s});
    const Job injects{.work = "inject", .bytes = 8};
    table.cell("nvlf", [&teams, injects] { return teams.nvlf.measure(injects); });
    table.cell("shm", [&teams, injects] { return teams.shm.measure(injects); });
    table.cell("tcp", [&teams, injects] { return teams.tcp.measure(injects); });
    for (const bool both : {false, true}) {
        for (const std::size_t bytes : message_sizes) {
            const bool small = bytes < 4096;
            table.row({row_id("stream", bytes, both),
                       fmt::format("tagged stream{}, {}", both ? ", both ways" : "", size_name(bytes)),
                       small ? Unit::million_per_s : Unit::gb_per_s, both ? 2 * bytes : bytes});
            const Job job{.work = "stream", .bytes = bytes, .both = both};
            table.cell("nvlf", [&teams, job] { return teams.nvlf.measure(job); });
            table.cell("shm", [&teams, job] { return teams.shm.measure(job); });
            table.cell("tcp", [&teams, job] { return teams.tcp.measure(job); });
        }
    }
}

void add_one_sided(Table& table, Teams& teams, const char* work, const char* title, std::size_t bytes, bool both) {
    const bool small = bytes < 4096;
    table.row({row_id(work, bytes, both), fmt::format("{}{}, {}", title, both ? ", both ways" : "", size_name(bytes)),
               small ? Unit::million_per_s : Unit::gb_per_s, both ? 2 * bytes : bytes});
    const Job fabric{.work = work, .bytes = bytes, .both = both, .memory = "fabric"};
    const Job plain{.work = work, .bytes = bytes, .both = both, .memory = "malloc"};
    table.cell("nvlf", [&teams, fabric] { return teams.nvlf.measure(fabric); });
    table.cell("nvlf malloc", [&teams, plain] { return teams.nvlf.measure(plain); });
    table.cell("shm", [&teams, plain] { return teams.shm.measure(plain); });
    table.cell("tcp", [&teams, plain] { return teams.tcp.measure(plain); });
}

void add_one_sided(Table& table, Teams& teams, const Ground& ground) {
    for (const std::size_t bytes : one_sided_sizes) {
        if (bytes >= 4096) {
            table.row({row_id("memcpy", bytes), "memcpy, " + size_name(bytes), Unit::gb_per_s, bytes});
            table.cell("bare", [&ground, bytes] {
                return memory_copy(ground.processors, bytes, times_in(ground, static_cast<double>(bytes) / 30));
            });
        }
        add_one_sided(table, teams, "write", "write", bytes, false);
    }
    for (const std::size_t bytes : one_sided_sizes) add_one_sided(table, teams, "read", "read", bytes, false);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20})
        add_one_sided(table, teams, "write", "write", bytes, true);
    add_one_sided(table, teams, "add", "atomic add", 8, false);
    add_one_sided(table, teams, "fetch_add", "atomic fetch and add", 8, false);
}

void add_wake(Table& table, Teams& teams, const Ground& ground) {
    table.row({"eventfd", "eventfd to a sleeper, and a cache line back"});
    table.cell("bare", [&] { return eventfd_wake(ground.processors, times_in(ground, 80'000)); });
    table.row({"wake", "tagged to a sleeper, and back"});
    const Job job{.work = "wake", .bytes = 1};
    table.cell("nvlf", [&teams, job] { return teams.nvlf_asleep.measure(job); });
    table.cell("tcp", [&teams, job] { return teams.tcp_asleep.measure(job); });
}

void add_crowds(Table& table, Teams& teams) {
    table.row({"all_to_all", "8 processes on 2 processors, all to all, 8 B"});
    const Job job{.work = "all_to_all", .bytes = 8};
    table.cell("nvlf", [&teams, job] { return teams.nvlf_crowd.measure(job); });
    table.cell("shm", [&teams, job] { return teams.shm_crowd.measure(job); });
    table.cell("tcp", [&teams, job] { return teams.tcp_crowd.measure(job); });
}

void add_footprint(Table& table, Teams& teams) {
    table.row({"footprint", "shared memory of an idle endpoint", Unit::bytes});
    const Job job{.work = "footprint", .count = 8};
    table.cell("nvlf", [&teams, job] { return teams.nvlf.perform(job); });
    table.cell("shm", [&teams, job] { return teams.shm.perform(job); });
}

} // namespace

std::string row_id(const std::string& work, std::size_t bytes, bool both) {
    return fmt::format("{}_{}{}", work, bytes, both ? "_both" : "");
}

std::string size_name(std::size_t bytes) {
    if (bytes >= 1 << 20) return fmt::format("{} MiB", bytes >> 20);
    return bytes >= 1024 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} B", bytes);
}

Teams::Teams(const Ground& ground)
    : nvlf{{.provider = "nvlf"}, ground},
      nvlf_thread_safe{{.provider = "nvlf", .thread_safe = true}, ground},
      nvlf_asleep{{.provider = "nvlf", .wait_fd = true}, ground},
      shm{{.provider = "shm"}, ground},
      tcp{{.provider = "tcp"}, ground},
      tcp_asleep{{.provider = "tcp", .wait_fd = true}, ground},
      nvlf_crowd{{.provider = "nvlf", .size = 8}, ground},
      shm_crowd{{.provider = "shm", .size = 8}, ground},
      tcp_crowd{{.provider = "tcp", .size = 8}, ground} {}

Table make_plan(Teams& teams, const Ground& ground, const PlanOptions& options) {
    Table table;
    add_machine(table, ground);
    add_messages(table, teams);
    add_one_sided(table, teams, ground);
    add_wake(table, teams, ground);
    add_crowds(table, teams);
    add_footprint(table, teams);
    if (options.others) add_others(table, ground);
    return table;
}

} // namespace nvlf::bench
