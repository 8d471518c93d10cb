// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// See others.hpp.
#include "others.hpp"

#include "endpoint.hpp"
#include "plan.hpp"
#include "support/child_process.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

namespace nvlf::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::ChildProcess;

constexpr auto program_bound = 60s;
constexpr std::array<std::size_t, 3> mpi_sizes{8, 65536, 1 << 20}; // As in mpi_probe.cc.

bool installed(const std::string& program) {
    std::istringstream path{std::getenv("PATH") != nullptr ? std::getenv("PATH") : ""};
    for (std::string folder; std::getline(path, folder, ':');)
        if (::access((folder + '/' + program).c_str(), X_OK) == 0) return true;
    return false;
}

// ---- Open MPI --------------------------------------------------------------------------------------------------------

const std::vector<std::string> over_nvlf{
    "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "opal_common_ofi_provider_include", "nvlf"};
const std::vector<std::string> over_vader{"--mca", "pml", "ob1", "--mca", "btl", "vader,self"};

// What mpi_probe printed, by the first word or two of each line.
class MpiRun {
public:
    MpiRun(const Ground& ground, std::vector<std::string> over, int ranks)
        : ground_{ground}, over_{std::move(over)}, ranks_{ranks} {}

    void start() {
        const std::string probe = (fs::read_symlink("/proc/self/exe").parent_path() / "mpi_probe").string();
        if (!installed("mpirun")) throw NotOffered{"Open MPI is not installed"};
        if (!fs::exists(probe)) throw NotOffered{"Open MPI was not installed when this was built"};
        const auto& [first, second] = ground_.processors;
        std::vector<std::string> argv{"taskset", "-c", fmt::format("{},{}", first, second)};
        // More ranks than processors: who waits gives way, over either.
        argv.insert(argv.end(), {"mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks_),
                                 "--mca", "mpi_yield_when_idle", ranks_ > 2 ? "1" : "0"});
        argv.insert(argv.end(), over_.begin(), over_.end());
        argv.insert(argv.end(),
                    {probe, std::to_string(first), std::to_string(second),
                     std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(ground_.budget).count())});
        auto environment = ground_.environment;
        environment.insert(environment.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
        const auto done = test::run(std::move(argv), program_bound, {.environment = environment, .directory = {}});
        if (!done.status.exited_with(0)) throw std::runtime_error{"mpirun: " + done.status.text() + ": " + done.output};
        read(done.output);
    }
    [[nodiscard]] Figures take(const std::string& what) const {
        const auto found = figures_.find(what);
        if (found == figures_.end()) throw NotOffered{"was not measured"};
        return found->second;
    }

private:
    // "name p50 p99" a line, among whatever else mpirun says.
    void read(const std::string& output) {
        std::istringstream lines{output};
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words{line};
            std::string name;
            Figures figures;
            if (words >> name >> figures.value >> figures.p99) figures_[name] = figures;
        }
    }

    const Ground& ground_;
    std::vector<std::string> over_;
    int ranks_;
    std::map<std::string, Figures> figures_{};
};

void add_mpi(Table& table, const Ground& ground) {
    table.row({"mpi_all_to_all", "MPI_Alltoall, 8 ranks on 2 processors, 8 B"});
    for (const auto& [column, over] : {std::pair{"nvlf", over_nvlf}, std::pair{"vader", over_vader}}) {
        const auto run = std::make_shared<MpiRun>(ground, over, 8);
        table.cell(column, [run] {
            run->start();
            return run->take("all_to_all");
        });
    }
    // One start for three rows: the first of them starts.
    const auto on_nvlf = std::make_shared<MpiRun>(ground, over_nvlf, 2);
    const auto on_vader = std::make_shared<MpiRun>(ground, over_vader, 2);
    for (const std::size_t bytes : mpi_sizes) {
        const std::string name = row_id("ping_pong", bytes);
        table.row({"mpi_" + name, "MPI_Send and MPI_Recv, half round trip, " + size_name(bytes)});
        for (const auto& [column, run] : {std::pair{"nvlf", on_nvlf}, std::pair{"vader", on_vader}})
            table.cell(column, [run = run, name, first = bytes == mpi_sizes.front()] {
                if (first) run->start();
                return run->take(name);
            });
    }
}

// ---- UCX -------------------------------------------------------------------------------------------------------------

// The line that ucx_perftest ends with: iterations, the median, two averages (us), and more.
Figures last_line_of_perftest(const std::string& output) {
    std::istringstream lines{output};
    Figures figures;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words{line};
        double iterations = 0;
        double typical_us = 0;
        if (words >> iterations >> typical_us) figures.value = typical_us * 1e3;
    }
    if (figures.value <= 0) throw std::runtime_error{"ucx_perftest: " + output};
    return figures;
}

Figures ucx_trip(const Ground& ground, std::size_t bytes) {
    if (!installed("ucx_perftest")) throw NotOffered{"ucx_perftest is not installed"};
    const std::string port = std::to_string(20000 + ::getpid() % 20000);
    const auto side = [&](int cpu, const std::vector<std::string>& more) {
        std::vector<std::string> argv{"taskset",
                                      "-c",
                                      std::to_string(cpu),
                                      "stdbuf", // Or nobody would learn that it waits.
                                      "-oL",
                                      "ucx_perftest",
                                      "-p",
                                      port,
                                      "-t",
                                      "tag_lat",
                                      "-s",
                                      std::to_string(bytes),
                                      "-n",
                                      bytes > 65536 ? "500" : "10000",
                                      "-f"};
        argv.insert(argv.end(), more.begin(), more.end());
        return ChildProcess::spawn(std::move(argv), {.environment = {"UCX_TLS=posix,cma,self"}, .directory = {}});
    };
    auto server = side(ground.processors.first, {});
    if (!server.wait_for_output("Waiting for connection", program_bound))
        throw std::runtime_error{"ucx_perftest: " + server.output()};
    auto client = side(ground.processors.second, {"127.0.0.1"});
    if (!client.wait(program_bound).exited_with(0)) throw std::runtime_error{"ucx_perftest: " + client.output()};
    (void)server.wait(program_bound);
    return last_line_of_perftest(client.output());
}

void add_ucx(Table& table, const Ground& ground) {
    for (const std::size_t bytes : mpi_sizes) {
        table.row({"ucx_" + row_id("ping_pong", bytes), "UCX, tagged, half round trip, " + size_name(bytes)});
        table.cell("ucx", [&ground, bytes] { return ucx_trip(ground, bytes); });
    }
}

} // namespace

void add_others(Table& table, const Ground& ground) {
    add_mpi(table, ground);
    add_ucx(table, ground);
}

} // namespace nvlf::bench
