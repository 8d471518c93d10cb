// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf: brings fabrics up and down, shows them, and runs programs on them. This file is the command line: what the
// commands are called, which options they take, what `--help` says. What they do is in one file each.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "process.hpp"

#include <nvlf/nvlf.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace nvlf::cli {

namespace {

constexpr const char* kExitCodes = "Exit codes: 0 fine, 1 failed, 2 wrong usage or input. The manual: man nvlf.";

void add_fabric(CLI::App& app, Target& target) {
    app.add_option("-f,--fabric", target.fabric, "Name of the fabric (NVLF_FABRIC, else \"default\")")
        ->type_name("NAME");
    app.add_option("-d,--dir", target.dir,
                   "Socket directory (NVLF_DIR, else $XDG_RUNTIME_DIR/nvlf, else /tmp/nvlf-UID)")
        ->type_name("DIR");
}

void add_topology(CLI::App& app, Target& target, const char* text) {
    app.add_option("-t,--topology", target.topology, text)->type_name("FILE|NAME");
}

void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "Print JSON; the manual lists the keys"); }

struct Options {
    UpOptions up{};
    DownOptions down{};
    StatusOptions status{};
    LsOptions ls{};
    TopoOptions topo{};
    RunOptions run{};
    CheckOptions check{};
};

// What main() runs once the command line is understood.
using Action = std::function<int()>;

void define_up(CLI::App& app, Options& options, Action& action) {
    auto& up_app = *app.add_subcommand("up", "Bring a fabric up");
    auto& up_options = options.up;
    add_fabric(up_app, up_options.target);
    add_topology(up_app, up_options.target, "Preset or topology file (NVLF_TOPOLOGY, else fusion-mixed-8)");
    up_app.add_option("--group", up_options.group, "Let the members of this group use the fabric")->type_name("GROUP");
    up_app.add_option("--quota", up_options.quota, "Memory that one client may allocate, such as '64 GiB'")
        ->type_name("BYTES");
    up_app.add_flag("--foreground", up_options.foreground, "Stay, and log to standard error");
    add_json(up_app, up_options.json);
    up_app.footer("Examples:\n"
                  "  nvlf up                              the default: 4 GPUs and 4 Trainium4 chips on 2 nodes\n"
                  "  nvlf up -t gb200-nvl72 -f rack       another preset, under another name\n"
                  "  nvlf up -t ./my.toml --foreground    a topology of your own, with its log");
    up_app.callback([&] { action = [&] { return up(options.up); }; });
}

void define_down(CLI::App& app, Options& options, Action& action) {
    auto& down_app = *app.add_subcommand("down", "Take a fabric down");
    add_fabric(down_app, options.down.target);
    down_app.add_flag("--force", options.down.force, "Also while it has clients, which then lose it");
    down_app.footer("Examples:\n"
                    "  nvlf down              fails while somebody uses it: nvlf ls clients tells who\n"
                    "  nvlf down -f rack --force");
    down_app.callback([&] { action = [&] { return down(options.down); }; });
}

void define_status(CLI::App& app, Options& options, Action& action) {
    auto& status_app = *app.add_subcommand("status", "Tell whether a fabric runs, and how it is");
    add_fabric(status_app, options.status.target);
    add_json(status_app, options.status.json);
    status_app.footer("Exit code 1 when no fabric of the name runs.\n\nExamples:\n"
                      "  nvlf status\n"
                      "  nvlf status --json | jq .allocated_bytes");
    status_app.callback([&] { action = [&] { return status(options.status); }; });
}

void define_ls(CLI::App& app, Options& options, Action& action) {
    auto& ls_app = *app.add_subcommand("ls", "List devices, switches, links, clients, fabrics or topologies");
    ls_app.add_option("WHAT", options.ls.what, fmt::format("One of {}", fmt::join(ls_subjects(), ", ")))
        ->capture_default_str()
        ->check(CLI::IsMember(ls_subjects()).description(""));
    add_fabric(ls_app, options.ls.target);
    add_topology(ls_app, options.ls.target, "Show this topology, whatever runs");
    add_json(ls_app, options.ls.json);
    ls_app.footer("Examples:\n"
                  "  nvlf ls                              devices of the fabric, or of the one that would start\n"
                  "  nvlf ls links -t dgx-h100            links of a preset\n"
                  "  nvlf ls clients --json");
    ls_app.callback([&] { action = [&] { return ls(options.ls); }; });
}

void define_topo(CLI::App& app, Options& options, Action& action) {
    auto& topo_app = *app.add_subcommand("topo", "Show how devices reach each other");
    add_fabric(topo_app, options.topo.target);
    add_topology(topo_app, options.topo.target, "Show this topology, whatever runs");
    topo_app
        .add_option("--devices", options.topo.devices, "Only these, as a matrix: gpu0,trn0 or 'gpu[0-3]' or indices")
        ->delimiter(',')
        ->allow_extra_args(false) // More by another comma or another --devices; the next word is not ours.
        ->type_name("DEV,...");
    topo_app.add_flag("--full", options.topo.full, "The whole matrix, however wide");
    add_json(topo_app, options.topo.json);
    topo_app.footer("Examples:\n"
                    "  nvlf topo                                           a matrix; a summary above 20 devices\n"
                    "  nvlf topo -t trn2-ultra-64 --devices 'trn[0-15]'    part of a preset");
    topo_app.callback([&] { action = [&] { return topo(options.topo); }; });
}

void define_run(CLI::App& app, Options& options, Action& action) {
    auto& run_app =
        *app.add_subcommand("run", "Run a program on a fabric: nvlf run [OPTIONS] -- COMMAND [ARGUMENT...]");
    add_fabric(run_app, options.run.target);
    add_topology(run_app, options.run.target, "For a fabric that is started on demand");
    run_app.add_option("-D,--device", options.run.device, "The device for which the program acts: a name or an index")
        ->type_name("DEV");
    run_app.footer(
        "Sets FI_PROVIDER_PATH (the folders that are in it stay), NVLF_NVLFD, and what the options say, then\n"
        "becomes the program. Exit code: the program's; 127 when it is not found, 126 when it cannot be\n"
        "executed. When no fabric runs, one starts with the first use and ends after the last.\n\nExamples:\n"
        "  nvlf run -- fi_info -p nvlf\n"
        "  nvlf run --device gpu0 -- fi_pingpong -e rdm -p nvlf\n"
        "  nvlf run --device trn0 -- fi_pingpong -e rdm -p nvlf 127.0.0.1");
    run_app.callback([&] { action = [&] { return run(options.run); }; });
}

void define_check(CLI::App& app, Options& options, Action& action) {
    auto& check_app = *app.add_subcommand("check", "Validate a topology file");
    check_app.add_option("TOPOLOGY", options.check.topology, "A file, or the name of a preset")->required();
    add_json(check_app, options.check.json);
    check_app.footer("Prints every mistake as file:line:column: what is wrong, what would be right; exit code 2.\n\n"
                     "Examples:\n"
                     "  nvlf check my.toml");
    check_app.callback([&] { action = [&] { return check(options.check); }; });
}

void define(CLI::App& app, Options& options, Action& action) {
    app.set_version_flag("--version",
                         fmt::format("nvlf {}.{}.{} (contract {}.{})", NVLF_VERSION_MAJOR, NVLF_VERSION_MINOR,
                                     NVLF_VERSION_PATCH, NVLF_ABI_MAJOR, NVLF_ABI_MINOR),
                         "Print the version");
    app.set_help_flag("-h,--help", "Print this help");
    app.require_subcommand(0, 1);
    app.footer(kExitCodes);
    define_up(app, options, action);
    define_down(app, options, action);
    define_status(app, options, action);
    define_ls(app, options, action);
    define_topo(app, options, action);
    define_run(app, options, action);
    define_check(app, options, action);
}

// What follows `--` of `nvlf run` is another program's: it is cut off before the parser could take an option out of it.
std::vector<std::string> cut_command(std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments.front() != "run") return {};
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    if (dashes == arguments.end()) return {};
    std::vector<std::string> command{dashes + 1, arguments.end()};
    arguments.erase(dashes, arguments.end());
    return command;
}

// A word that is no command deserves better than "not expected".
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments.front().empty() || arguments.front().front() == '-') return;
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
    if (std::find(names.begin(), names.end(), arguments.front()) != names.end()) return;
    throw Failure{
        kUsage, fmt::format("{}: no such command; there are {}", printable(arguments.front()), fmt::join(names, ", "))};
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string name = chosen.empty() ? "nvlf" : "nvlf " + chosen.front()->get_name();
    fmt::print(stderr, "{}: {}\nTry `{} --help`.\n", name, error.what(), name);
    return kUsage;
}

int dispatch(std::vector<std::string> arguments) {
    CLI::App app{"NVLF: an emulated NVLink Fusion fabric of NVIDIA GPUs and Trainium chips.", "nvlf"};
    Options options;
    Action action;
    define(app, options, action);
    if (arguments.empty()) {
        fmt::print(stderr, "{}", app.help());
        return kUsage;
    }
    check_command(app, arguments);
    options.run.command = cut_command(arguments);
    try {
        std::reverse(arguments.begin(), arguments.end()); // As CLI11 wants them.
        app.parse(std::move(arguments));
    } catch (const CLI::Success& asked) { // --help, --version
        std::ostringstream text;
        const int code = app.exit(asked, text);
        print(text.str());
        flush();
        return code;
    } catch (const CLI::ParseError& error) {
        return usage_error(app, error);
    }
    if (app.got_subcommand("run") && options.run.command.empty())
        throw Failure{kUsage,
                      "run: no command; it stands after two dashes: nvlf run [OPTIONS] -- COMMAND [ARGUMENT...]"};
    const int code = action();
    flush();
    return code;
}

} // namespace

} // namespace nvlf::cli

int main(int argc, char** argv) {
    using namespace nvlf::cli;
    open_standard_streams();
    try {
        return dispatch({argv + 1, argv + argc});
    } catch (const Failure& failure) {
        std::fflush(stdout); // What was found out before comes first.
        fmt::print(stderr, "nvlf: {}\n", failure.what());
        return failure.exit_code();
    } catch (const std::exception& error) {
        fmt::print(stderr, "nvlf: {}\n", error.what());
        return kFailed;
    }
}
