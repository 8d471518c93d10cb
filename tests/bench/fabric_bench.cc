// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// fabric_bench - the same work over nvlf, shm and tcp, by plain libfabric calls, in one run on two pinned processors; and
// beside it what the machine itself costs, and what others' programs do. Prints a table, and ratios with their targets;
// writes both as JSON.
//
// A target that is missed is a result. The exit code is 0 unless something could not be measured that should have been.
#include "plan.hpp"
#include "processors.hpp"
#include "ratios.hpp"
#include "support/fabric_daemon.hpp"
#include "support/paths.hpp"
#include "worker.hpp"

#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

using namespace nvlf::bench;

struct Options {
    std::string json{};
    std::string rows{};
    int rounds = 5;
    int milliseconds = 60;
    bool quick = false;
    bool no_others = false;
    std::string worker{};
    std::size_t rank = 0;
};

Options parse(int argc, char** argv) {
    Options options;
    CLI::App app{"The same work over nvlf, shm and tcp, and what it costs as a ratio", "fabric_bench"};
    app.add_option("--json", options.json, "Write the figures there, too");
    app.add_option("--rows", options.rows, "Only rows whose title contains this");
    app.add_option("--rounds", options.rounds, "How often everything is measured; the median counts")
        ->check(CLI::Range(1, 1000));
    app.add_option("--milliseconds", options.milliseconds, "What one measurement is to take")
        ->check(CLI::Range(1, 10000));
    app.add_flag("--quick", options.quick, "3 rounds of 10 ms: less exact");
    app.add_flag("--no-others", options.no_others, "Leave Open MPI and UCX out");
    app.add_option("--worker", options.worker)->group(""); // How it starts itself.
    app.add_option("--rank", options.rank)->group("");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::exit(app.exit(error));
    }
    if (options.quick) {
        options.rounds = 3;
        options.milliseconds = 10;
    }
    return options;
}

Ground make_ground(const Options& options, nvlf::test::FabricDaemon& daemon) {
    const std::vector<int> allowed = allowed_processors();
    if (allowed.size() < 2) throw std::runtime_error{"needs two processors to pin to"};
    Ground ground{.processors = {allowed[0], allowed[1]},
                  .environment = {"NVLF_TOPOLOGY", "NVLF_DEVICE", "FI_PROVIDER", "NVLF_ON_DEMAND=0",
                                  "NVLF_DIR=" + daemon.dir(), "NVLF_FABRIC=" + daemon.fabric()},
                  .daemon = daemon.process().pid(),
                  .budget = std::chrono::milliseconds{options.milliseconds}};
    for (auto& variable : nvlf::test::stock_program_environment()) ground.environment.push_back(std::move(variable));
    return ground;
}

void write_json(const std::string& path, const Options& options, const Table& table, const std::vector<Ratio>& ratios) {
    const nlohmann::json all{{"rounds", options.rounds},
                             {"milliseconds", options.milliseconds},
                             {"rows", table.json()},
                             {"ratios", json(ratios)}};
    std::ofstream file{path};
    file << all.dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error{"cannot write " + path};
}

void report(const char* what, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) fmt::print("{}: {}\n", what, line);
}

int measure(const Options& options) {
    nvlf::test::FabricDaemon daemon;
    const Ground ground = make_ground(options, daemon);
    Teams teams{ground};
    Table table = make_plan(teams, ground, {.others = !options.no_others});
    table.keep_rows(options.rows);
    table.run(options.rounds, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
    const std::vector<Ratio> all = ratios(table);
    fmt::print("{}\n{}\n", table.text(), text(all));
    report("not measured", table.gaps());
    report("FAILED", table.failures());
    if (!options.json.empty()) write_json(options.json, options, table, all);
    return table.failures().empty() ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) try {
    const Options options = parse(argc, argv);
    return options.worker.empty() ? measure(options) : serve(options.worker, options.rank);
} catch (const std::exception& error) {
    fmt::print(stderr, "fabric_bench: {}\n", error.what());
    return 1;
}
