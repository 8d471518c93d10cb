// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf topo: who reaches whom, and how. A matrix in the manner of `nvidia-smi topo -m` as long as one fits; beyond that,
// which kinds of paths there are and how many pairs have each, because 144 columns tell nobody anything.
#include "commands.hpp"
#include "console.hpp"
#include "failure.hpp"
#include "output.hpp"
#include "paths.hpp"
#include "view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace nvlf::cli {

namespace {

constexpr std::size_t kMatrixDevices = 20; // More than that is summed up, unless the user insists.
constexpr std::size_t kMaxDevices = 512;   // More than that is a quarter of a million paths: the user must choose.

using Selection = std::vector<std::uint32_t>;

std::string title(const View& view, const TopoOptions& options) {
    const std::string what =
        fmt::format("{}, {} on {}, {}", view.topology, counted(view.devices.size(), "device"),
                    counted(view.nodes, "node"), counted(view.switches.size(), "switch", "switches"));
    if (view.running) return fmt::format("fabric {} (running): {}", view.fabric, what);
    if (!options.target.topology.empty()) return "topology " + what;
    return fmt::format("fabric {} (not running; this is what would start): {}", view.fabric, what);
}

std::string standing(const View& view) {
    if (view.assumed == 0)
        return fmt::format("None of the topology's {} is assumed.", counted(view.figures, "hardware figure"));
    return fmt::format("{} of the topology's {} {} assumed: not publicly known, and yours to change.", view.assumed,
                       counted(view.figures, "hardware figure"), view.assumed == 1 ? "is" : "are");
}

const char* protocol_name(std::uint32_t protocol) {
    switch (protocol) {
    case NVLF_LINK_NVLINK: return "NVLink";
    case NVLF_LINK_NEURONLINK: return "NeuronLink";
    case NVLF_LINK_PCIE: return "PCIe";
    case NVLF_LINK_C2C: return "NVLink-C2C";
    case NVLF_LINK_EFA: return "EFA";
    default: return "unknown protocol";
    }
}

// What the labels on this page mean; nothing about those that are not on it.
struct Legend {
    std::set<std::uint32_t> protocols{};
    bool passes = false;
    bool broken = false;
    bool nodes = false;

    void saw(const std::optional<PathView>& path) {
        if (!path) {
            broken = true;
            return;
        }
        protocols.insert(path->protocol);
        passes = passes || path->hops > 1;
    }

    [[nodiscard]] std::string text(bool matrix) const {
        std::string out = styled("Legend:", Style::heading) + '\n';
        if (matrix) out += "  X    the device itself\n";
        for (const std::uint32_t protocol : protocols) {
            const std::string sign = fmt::format("{}#", label_prefix(protocol));
            out += fmt::format("  {}  # {} lanes side by side\n", padded(sign, 3), protocol_name(protocol));
        }
        if (passes) out += "  /#   after passing # switches or devices; none: straight from one to the other\n";
        if (broken) out += "  -    no way left\n";
        if (nodes) out += "  |    boundary of a node\n";
        return out;
    }
};

class Matrix {
public:
    Matrix(const View& view, const Selection& selection) : view_{view} {
        // Boundaries help where nodes hold several devices; between single ones they would only be noise.
        std::set<std::uint32_t> nodes;
        for (const std::uint32_t i : selection) nodes.insert(view.devices[i].node);
        legend_.nodes = nodes.size() > 1 && nodes.size() < selection.size();
        add_heading(selection);
        Paths paths{view};
        for (const std::uint32_t from : selection) add_row(paths, from, selection);
    }

    [[nodiscard]] std::size_t columns() const {
        std::size_t sum = 0;
        for (const std::size_t width : widths()) sum += width + 2;
        return sum;
    }

    [[nodiscard]] std::string text() const {
        const auto width = widths();
        std::string out = line(rows_.front(), width, Style::heading);
        for (std::size_t r = 1; r < rows_.size(); ++r) {
            if (legend_.nodes && r > 1 && rows_[r].node != rows_[r - 1].node) out += rule(width);
            out += line(rows_[r], width, Style::plain);
        }
        return out;
    }

    [[nodiscard]] const Legend& legend() const { return legend_; }

private:
    struct Row {
        std::uint32_t node = 0;
        std::vector<std::string> cells;
    };

    void add_heading(const Selection& selection) {
        Row row{0, {""}};
        for (std::size_t i = 0; i < selection.size(); ++i) {
            boundary(row, selection, i);
            row.cells.push_back(text_of(view_.devices[selection[i]].name));
        }
        row.cells.insert(row.cells.end(), {"NODE", "NUMA", "MODEL"});
        rows_.push_back(std::move(row));
    }

    void add_row(Paths& paths, std::uint32_t from, const Selection& selection) {
        const nvlf_device& device = view_.devices[from];
        Row row{device.node, {text_of(device.name)}};
        for (std::size_t i = 0; i < selection.size(); ++i) {
            boundary(row, selection, i);
            row.cells.push_back(cell(paths, from, selection[i]));
        }
        row.cells.push_back(fmt::format("{}", device.node));
        row.cells.push_back(device.numa_node == UINT32_MAX ? "-" : fmt::format("{}", device.numa_node));
        row.cells.push_back(text_of(device.model));
        rows_.push_back(std::move(row));
    }

    std::string cell(Paths& paths, std::uint32_t from, std::uint32_t to) {
        if (from == to) return "X";
        const auto path = paths.between(from, to);
        legend_.saw(path);
        return path ? label_of(*path) : "-";
    }

    void boundary(Row& row, const Selection& selection, std::size_t i) const {
        if (legend_.nodes && i > 0 && view_.devices[selection[i]].node != view_.devices[selection[i - 1]].node)
            row.cells.emplace_back("|");
    }

    [[nodiscard]] std::vector<std::size_t> widths() const {
        std::vector<std::size_t> result(rows_.front().cells.size());
        for (const Row& row : rows_)
            for (std::size_t c = 0; c < row.cells.size(); ++c)
                result[c] = std::max(result[c], columns_of(row.cells[c]));
        return result;
    }

    [[nodiscard]] static std::string line(const Row& row, const std::vector<std::size_t>& width, Style style) {
        std::string out;
        for (std::size_t c = 0; c < row.cells.size(); ++c) {
            const bool last = c + 1 == row.cells.size();
            const Style own = c == 0                ? Style::heading
                              : row.cells[c] == "|" ? Style::faint
                              : row.cells[c] == "-" ? Style::bad
                                                    : style;
            out += styled(last ? row.cells[c] : padded(row.cells[c], width[c]), own) + (last ? "\n" : "  ");
        }
        return out;
    }

    // Under the device columns only: what stands right of them is text.
    [[nodiscard]] std::string rule(const std::vector<std::size_t>& width) const {
        std::string out(width.front() + 2, ' ');
        for (std::size_t c = 1; c + 3 < width.size(); ++c) {
            const bool bar = rows_.front().cells[c] == "|";
            const bool last = c + 4 == width.size();
            out += (bar ? std::string{"+"} : std::string(width[c], '-')) + (last ? "" : "--");
        }
        return styled(out, Style::faint) + '\n';
    }

    const View& view_;
    std::vector<Row> rows_; // The first is the heading.
    Legend legend_;
};

// "gpu" and 12 of "gpu12".
std::pair<std::string, std::optional<std::uint32_t>> split_number(const std::string& name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), value);
    if (digits == name.size() || error != std::errc{} || end != name.data() + name.size()) return {name, std::nullopt};
    return {name.substr(0, digits), value};
}

// Runs of devices that differ in their number only: "gpu[0-71]".
Table device_runs(const View& view, const Selection& selection) {
    Table table{{{"DEVICES"}, {"COUNT", Table::Align::right}, {"MODEL"}, {"NODES"}, {"HBM"}, {"RATE"}}};
    for (std::size_t i = 0; i < selection.size();) {
        const nvlf_device& first = view.devices[selection[i]];
        const auto [prefix, number] = split_number(text_of(first.name));
        std::uint32_t low = first.node;
        std::uint32_t high = first.node;
        std::size_t n = 1;
        for (; number && i + n < selection.size(); ++n) {
            const nvlf_device& next = view.devices[selection[i + n]];
            const auto [next_prefix, next_number] = split_number(text_of(next.name));
            if (next_prefix != prefix || next_number != *number + n || text_of(next.model) != text_of(first.model) ||
                next.rate != first.rate)
                break;
            low = std::min(low, next.node);
            high = std::max(high, next.node);
        }
        const std::string names =
            n == 1 ? text_of(first.name) : fmt::format("{}[{}-{}]", prefix, *number, *number + n - 1);
        table.add({names, fmt::format("{}", n), text_of(first.model),
                   low == high ? fmt::format("{}", low) : fmt::format("{}-{}", low, high), bytes_text(first.hbm_bytes),
                   rate_text(first.rate)});
        i += n;
    }
    return table;
}

// How many pairs have which kind of path.
Table path_kinds(const View& view, const Selection& selection, Legend& legend) {
    struct Kind {
        std::size_t pairs = 0;
        std::optional<PathView> path;
        std::string example;
    };
    std::map<std::tuple<bool, std::uint32_t, std::string, std::uint64_t, std::uint64_t>, Kind> kinds;
    Paths paths{view};
    for (std::size_t i = 0; i < selection.size(); ++i) {
        for (std::size_t j = i + 1; j < selection.size(); ++j) {
            const nvlf_device& a = view.devices[selection[i]];
            const nvlf_device& b = view.devices[selection[j]];
            const auto path = paths.between(selection[i], selection[j]);
            legend.saw(path);
            const PathView p = path.value_or(PathView{});
            Kind& kind = kinds[{a.node != b.node, p.hops, path ? label_of(p) : "-", p.rate, p.latency_ps}];
            if (kind.pairs++ == 0) {
                kind.path = path;
                kind.example = fmt::format("{} - {}", text_of(a.name), text_of(b.name));
            }
        }
    }
    Table table{{{"PATH"}, {"NODE"}, {"PAIRS", Table::Align::right}, {"RATE"}, {"LATENCY"}, {"FOR EXAMPLE"}}};
    for (const auto& [key, kind] : kinds) {
        const char* node = std::get<0>(key) ? "other" : "same";
        table.add({std::get<2>(key), node, fmt::format("{}", kind.pairs), kind.path ? rate_text(kind.path->rate) : "-",
                   kind.path ? time_text(kind.path->latency_ps) : "-", kind.example});
    }
    return table;
}

void print_summary(const View& view, const Selection& selection) {
    Legend legend;
    print(device_runs(view, selection).text() + '\n');
    print(path_kinds(view, selection, legend).text() + '\n');
    print(legend.text(false) + "  RATE, LATENCY: of links and switches, one direction, with nobody else on them\n\n");
    print("A matrix: --devices DEV[,DEV...] for some of them, --full for all.\n");
}

Json json_of(const View& view, const Selection& selection) {
    Json json;
    json["fabric"] = view.fabric;
    json["running"] = view.running;
    json["topology"] = view.topology;
    json["nodes"] = view.nodes;
    json["figures"] = view.figures;
    json["assumed_figures"] = view.assumed;
    Json& devices = json["devices"] = Json::array();
    for (const std::uint32_t i : selection) devices.push_back(to_json(view.devices[i]));
    Json& list = json["paths"] = Json::array();
    Paths paths{view};
    for (const std::uint32_t from : selection) {
        for (const std::uint32_t to : selection) {
            if (to <= from) continue; // Links are full duplex: the way back is the same.
            const auto path = paths.between(from, to);
            Json entry;
            entry["a"] = text_of(view.devices[from].name);
            entry["b"] = text_of(view.devices[to].name);
            entry["same_node"] = view.devices[from].node == view.devices[to].node;
            entry["label"] = path ? Json(label_of(*path)) : Json(nullptr);
            const PathView p = path.value_or(PathView{});
            entry["protocol"] = path ? Json(protocol_word(p.protocol)) : Json(nullptr);
            entry["width"] = p.width;
            entry["hops"] = p.hops;
            entry["switches"] = p.switches;
            entry["rate_bytes_per_s"] = p.rate;
            entry["latency_ps"] = path ? Json(p.latency_ps) : Json(nullptr);
            list.push_back(std::move(entry));
        }
    }
    return json;
}

} // namespace

int topo(const TopoOptions& options) {
    const View seen = view(options.target);
    const Selection selection = select_devices(seen, options.devices);
    if (selection.size() > kMaxDevices)
        throw Failure{kUsage, fmt::format("topology {}: {} devices have too many pairs to list; choose up to {} with "
                                          "--devices, such as --devices '{}'",
                                          seen.topology, selection.size(), kMaxDevices, "gpu[0-15]")};
    if (options.json) {
        print_json(json_of(seen, selection));
        return kFine;
    }
    print(styled(title(seen, options), Style::heading) + "\n\n");
    const bool asked = options.full || !options.devices.empty();
    if (!asked && selection.size() > kMatrixDevices) {
        print_summary(seen, selection);
    } else {
        const Matrix matrix{seen, selection};
        const std::size_t screen = terminal_columns();
        if (!asked && screen > 0 && matrix.columns() > screen) print_summary(seen, selection);
        else print(matrix.text() + '\n' + matrix.legend().text(true));
    }
    print('\n' + standing(seen) + '\n');
    return kFine;
}

} // namespace nvlf::cli
