// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What MPI costs over whatever it was told to run on: two ranks play ping-pong, more do all-to-all. mpirun starts it;
// fabric_bench starts mpirun and reads what rank 0 prints: "name nanoseconds p99" a line.
//
// usage: mpi_probe PROCESSOR PROCESSOR MILLISECONDS
#include "figures.hpp"
#include "processors.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace nvlf::bench;

void ping_pong(int rank, int bytes, double budget_ns) {
    std::vector<char> out(static_cast<std::size_t>(bytes), 'x');
    std::vector<char> in(static_cast<std::size_t>(bytes));
    const auto trip = [&] {
        if (rank == 0) MPI_Send(out.data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out.data(), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    };
    constexpr int trial = 200;
    auto start = Clock::now();
    for (int i = 0; i < trial; ++i) trip();
    long count = static_cast<long>(budget_ns * trial / ns_between(start, Clock::now()));
    count = std::clamp(count, 50L, 1'000'000L);
    MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    RoundTrips times{static_cast<std::uint64_t>(count)};
    times.start();
    for (long i = 0; i < count; ++i) {
        trip();
        times.stamp();
    }
    const Figures figures = times.half();
    if (rank == 0) std::printf("ping_pong_%d %.1f %.1f\n", bytes, figures.value, figures.p99);
}

void all_to_all(int rank, int size, double budget_ns) {
    const auto ranks = static_cast<std::size_t>(size);
    std::vector<long> out(ranks);
    std::vector<long> in(ranks);
    const auto rounds = [&](long count) {
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = Clock::now();
        for (long i = 0; i < count; ++i) {
            for (std::size_t to = 0; to < ranks; ++to) out[to] = rank * 1000 + static_cast<long>(to) + i;
            MPI_Alltoall(out.data(), 1, MPI_LONG, in.data(), 1, MPI_LONG, MPI_COMM_WORLD);
            for (std::size_t from = 0; from < ranks; ++from)
                if (in[from] != static_cast<long>(from) * 1000 + rank + i) MPI_Abort(MPI_COMM_WORLD, 1);
        }
        return ns_between(start, Clock::now()) / static_cast<double>(count);
    };
    // First contact, and then twice: a trial of few is mostly its beginning and its end. As Team::fitting.
    long count = 20;
    (void)rounds(count);
    for (int step = 0; step < 2; ++step) {
        count = static_cast<long>(budget_ns / rounds(count));
        count = std::clamp(count, 50L, 1'000'000L);
        MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    }
    const double each = rounds(count);
    if (rank == 0) std::printf("all_to_all %.1f 0\n", each);
}

} // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4 || !pin(std::atoi(argv[1 + rank % 2]))) MPI_Abort(MPI_COMM_WORLD, 2);
    const double budget_ns = std::atof(argv[3]) * 1e6;
    if (size == 2) {
        for (const int bytes : {8, 65536, 1 << 20}) ping_pong(rank, bytes, budget_ns);
    } else {
        all_to_all(rank, size, budget_ns);
    }
    MPI_Finalize();
    return 0;
}
