// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Groups become devices and switches, rules become links, and the result is checked.
//
// Order of the work, each step only on what the one before left sound, so that one mistake is reported once:
//   1. groups: counts against the limits, names against each other;
//   2. ports that rules name explicitly are reserved, wherever in the file such a rule stands;
//   3. rules, in the order of the file: first how many links a rule makes, then the links;
//   4. on a complete fabric: ports left over, and distances (one search for 64 devices at a time).
#include "model/graph.hpp"
#include "model/plan.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

namespace nvlf::model {

namespace {

std::string counted(std::uint64_t count, std::string_view noun) {
    return std::to_string(count) + ' ' + std::string{noun} + (count == 1 ? "" : "s");
}

// From a name to its vertex. Members of one prefix may come from several groups.
class Names {
public:
    struct Run {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        Vertex base = 0;
    };

    // False when a member of that name exists.
    bool add(const std::string& prefix, Run run) {
        auto& runs = runs_[prefix];
        const bool taken = std::any_of(runs.begin(), runs.end(), [&](const Run& other) {
            return run.first < other.first + other.count && other.first < run.first + run.count;
        });
        if (taken) return false;
        runs.insert(std::upper_bound(runs.begin(), runs.end(), run,
                                     [](const Run& a, const Run& b) { return a.first < b.first; }),
                    run);
        return true;
    }

    [[nodiscard]] const std::vector<Run>* find(const std::string& prefix) const {
        const auto found = runs_.find(prefix);
        return found == runs_.end() ? nullptr : &found->second;
    }

    [[nodiscard]] std::vector<std::string_view> prefixes() const {
        std::vector<std::string_view> all;
        all.reserve(runs_.size());
        for (const auto& [prefix, runs] : runs_) all.push_back(prefix);
        return all;
    }

private:
    std::map<std::string, std::vector<Run>> runs_; // Ordered, so that messages do not depend on hashing.
};

// Which ports of each vertex are taken. `wanted` counts past the end too: the message tells how many were asked for.
class PortBook {
public:
    explicit PortBook(std::size_t vertices) : wanted_(vertices), next_(vertices) {}

    [[nodiscard]] std::uint32_t wanted(Vertex v) const { return wanted_[v]; }

    // False when one of them is reserved already.
    bool reserve(Vertex v, std::uint32_t port, std::uint32_t width) {
        auto& taken = reserved_[v];
        if (taken.size() < port + width) taken.resize(port + width);
        const auto begin = taken.begin() + port;
        if (std::find(begin, begin + width, true) != begin + width) return false;
        std::fill(begin, begin + width, true);
        wanted_[v] += width;
        return true;
    }

    // The first of `width` free neighbouring ports.
    std::uint32_t take(Vertex v, std::uint32_t width) {
        std::uint32_t& port = next_[v];
        if (const auto fixed = reserved_.find(v); fixed != reserved_.end()) {
            const auto& taken = fixed->second;
            for (std::uint32_t i = port; i < port + width && i < taken.size(); ++i)
                if (taken[i]) port = i + 1;
        }
        wanted_[v] += width;
        return std::exchange(port, port + width);
    }

private:
    std::vector<std::uint32_t> wanted_;
    std::vector<std::uint32_t> next_;
    std::unordered_map<Vertex, std::vector<bool>> reserved_; // Only vertices that a rule names with a port.
};

class Builder {
public:
    Builder(Plan& plan, Diagnostics& diagnostics)
        : plan_{plan}, topology_{plan.topology}, diagnostics_{diagnostics}, ports_{0} {}

    void run() {
        // Devices before switches, whatever the order in the file: vertices number devices first.
        for (const bool switches : {false, true})
            for (const Group& group : plan_.groups)
                if (group.of_switches == switches) add_group(group);
        if (topology_.devices.empty() && diagnostics_.empty())
            diagnostics_.add({1, 1}, "the fabric has no devices", "add a [[devices]] group");

        ports_ = PortBook{topology_.vertex_count()};
        for (const Rule& rule : plan_.rules) reserve_ports(rule);
        for (const Rule& rule : plan_.rules)
            if (!diagnostics_.full()) add_rule(rule);

        // A fabric with a mistake in it is expected to have holes as well; they would only hide the mistake.
        if (diagnostics_.empty()) check_dangling_ports();
        if (diagnostics_.empty()) check_distances();
    }

private:
    // ---- groups ----

    void add_group(const Group& group) {
        if (group.of_switches ? add_switches(group) : add_devices(group)) return;
        plan_.broken_prefixes.insert(group.prefix);
    }

    bool add_names(const Group& group, Vertex base) {
        if (names_.add(group.prefix, {group.first, group.count, base})) return true;
        diagnostics_.add(group.at, "duplicate names: another group has members among " + member_range(group),
                         "choose another prefix or another first");
        return false;
    }

    static std::string member_range(const Group& group) {
        const std::string name = group.prefix + std::to_string(group.first);
        if (group.count == 1) return name;
        return name + " to " + group.prefix + std::to_string(group.first + group.count - 1);
    }

    bool within(std::size_t have, const Group& group, std::uint32_t limit, std::string_view noun) {
        if (have + group.count <= limit) return true;
        diagnostics_.add(group.at,
                         "this group makes " + std::to_string(have + group.count) + ' ' + std::string{noun} + " in all",
                         "at most " + std::to_string(limit) + " are supported");
        return false;
    }

    bool add_devices(const Group& group) {
        if (!within(topology_.devices.size(), group, max_devices, "devices")) return false;
        const std::uint32_t last_node = group.first_node + (group.count - 1) / group.per_node;
        if (topology_.node_count > 0 && last_node >= topology_.node_count) {
            diagnostics_.add(group.at,
                             "this group reaches node " + std::to_string(last_node) + " of " +
                                 std::to_string(topology_.node_count) + " (nodes count from 0)",
                             "set nodes to " + std::to_string(last_node + 1) + " or put more devices on each");
            return false;
        }
        if (!add_names(group, static_cast<Vertex>(topology_.devices.size()))) return false;
        for (std::uint32_t i = 0; i < group.count; ++i)
            topology_.devices.push_back(
                {group.prefix + std::to_string(group.first + i), group.type, group.first_node + i / group.per_node});
        return true;
    }

    bool add_switches(const Group& group) {
        if (!within(topology_.switches.size(), group, max_switches, "switches")) return false;
        if (!add_names(group, topology_.vertex_count())) return false;
        for (std::uint32_t i = 0; i < group.count; ++i)
            topology_.switches.push_back(
                {group.prefix + std::to_string(group.first + i), group.type, group.first_plane + i % group.planes});
        return true;
    }

    // ---- selectors ----

    // Members in the order in which they are written; nothing when one is wrong (and reported).
    std::optional<std::vector<Vertex>> resolve(const std::vector<Selector>& selectors) {
        std::vector<Vertex> members;
        bool sound = true;
        for (const Selector& selector : selectors) {
            if (diagnostics_.full()) return std::nullopt;
            sound = append(selector, members) && sound;
            // Twice the same member is reported below; this only keeps a hostile list from growing.
            if (members.size() > max_devices + max_switches) break;
        }
        if (!sound) return std::nullopt;
        std::vector<Vertex> sorted = members;
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end()) {
            diagnostics_.add(selectors.front().at, topology_.name_of(*twice) + " is listed twice", "name it once");
            return std::nullopt;
        }
        return members;
    }

    bool append(const Selector& selector, std::vector<Vertex>& members) {
        if (plan_.broken_prefixes.contains(selector.prefix)) return false;
        const auto* runs = names_.find(selector.prefix);
        if (!runs) return report_unknown_prefix(selector);
        if (selector.all) {
            for (const auto& run : *runs)
                for (std::uint32_t i = 0; i < run.count; ++i) members.push_back(run.base + i);
            return true;
        }
        auto run = runs->begin();
        for (std::uint32_t number = selector.first; number <= selector.last; ++number) {
            while (run != runs->end() && run->first + run->count <= number) ++run;
            if (run == runs->end() || number < run->first) return report_unknown_member(selector, number);
            members.push_back(run->base + (number - run->first));
        }
        return true;
    }

    bool report_unknown_prefix(const Selector& selector) {
        // A group whose prefix could not be read may be the one that is meant.
        if (plan_.broken_prefixes.contains("")) return false;
        const auto known = names_.prefixes();
        const auto near = closest_name(selector.prefix, known);
        std::string fix = "no group has that prefix";
        if (!near.empty()) fix = "did you mean " + quoted(near);
        diagnostics_.add(selector.at, quoted(selector.text) + " names nothing", std::move(fix));
        return false;
    }

    bool report_unknown_member(const Selector& selector, std::uint32_t number) {
        diagnostics_.add(selector.at,
                         quoted(selector.text) + " names " + selector.prefix + std::to_string(number) +
                             ", which does not exist",
                         "stay within the members of the groups with that prefix");
        return false;
    }

    // ---- ports ----

    // 0 when the type was wrong and reported: then nothing about ports can be said.
    [[nodiscard]] std::uint32_t port_count(Vertex v) const {
        const bool device = topology_.is_device(v);
        const std::uint32_t type =
            device ? topology_.devices[v].type : topology_.switches[topology_.switch_index(v)].type;
        if (type == unknown_type) return 0;
        return device ? topology_.device_types[type].ports.value : topology_.switch_types[type].ports.value;
    }

    void reserve_ports(const Rule& rule) {
        for (const auto* selectors : {&rule.from, &rule.to}) {
            for (const Selector& selector : *selectors) {
                if (!selector.port || selector.first != selector.last) continue;
                const auto* runs = names_.find(selector.prefix);
                if (!runs) continue; // Reported when the rule is carried out.
                for (const auto& run : *runs) {
                    if (selector.first < run.first || selector.first >= run.first + run.count) continue;
                    reserve_port(selector, run.base + (selector.first - run.first), rule.widths.front());
                }
            }
        }
    }

    void reserve_port(const Selector& selector, Vertex v, std::uint32_t width) {
        const std::uint32_t ports = port_count(v);
        if (ports == 0) return;
        const std::uint32_t port = *selector.port;
        if (port >= ports || width > ports - port) {
            diagnostics_.add(selector.at,
                             "dangling port: " + topology_.name_of(v) + " has no port " +
                                 std::to_string(std::uint64_t{port} + width - 1),
                             "its ports are 0 to " + std::to_string(ports - 1));
        } else if (!ports_.reserve(v, port, width)) {
            diagnostics_.add(selector.at,
                             "port " + std::to_string(port) + " of " + topology_.name_of(v) + " is already wired",
                             "give each link its own port");
        }
    }

    // ---- rules ----

    void add_rule(const Rule& rule) {
        const auto from = resolve(rule.from);
        const auto to = resolve(rule.to);
        if (!from || !to || rule.links.empty()) return;
        if (!shape_fits(rule, *from, *to)) return;
        const std::uint64_t count = link_count(rule, *from, *to);
        if (topology_.links.size() + count > max_links) {
            diagnostics_.add(rule.at,
                             "this rule makes " + std::to_string(topology_.links.size() + count) + " links in all",
                             "at most " + std::to_string(max_links) + " are supported");
            return;
        }
        const std::size_t first_link = topology_.links.size();
        wire(rule, *from, *to);
        check_ports(rule, first_link);
    }

    // Whether the numbers that a rule gives agree with the members that it names.
    bool shape_fits(const Rule& rule, const std::vector<Vertex>& from, const std::vector<Vertex>& to) {
        const auto wrong = [&](std::string what, std::string fix) {
            diagnostics_.add(rule.at, std::move(what), std::move(fix));
            return false;
        };
        const std::string have = counted(from.size(), "member");
        switch (rule.wiring) {
        case Wiring::each_to_each:
            if (rule.widths.size() != 1 && rule.widths.size() != to.size())
                return wrong(counted(rule.widths.size(), "width") + " for " + counted(to.size(), "member") + " of to",
                             "give one width, or one for each member of to");
            break;
        case Wiring::blocks:
            if (from.size() % to.size() != 0)
                return wrong(have + " cannot be split evenly among " + std::to_string(to.size()),
                             "the number of members of from must be a multiple of that of to");
            break;
        case Wiring::pairs:
            if (from.size() != to.size())
                return wrong("pairs joins " + have + " to " + std::to_string(to.size()),
                             "name as many in to as in from");
            break;
        case Wiring::ring:
            if (from.size() < 2) return wrong("a ring of " + have, "name at least 2");
            break;
        case Wiring::torus:
            if (const auto cells = cells_of(rule.dims); cells != from.size())
                return wrong("dims make " + std::to_string(cells) + " places for " + have,
                             "the product of dims must be the number of members of from");
            break;
        }
        if (const auto both = in_common(from, to))
            return wrong(topology_.name_of(*both) + " stands in from and in to", "nothing is linked to itself");
        return true;
    }

    [[nodiscard]] std::optional<Vertex> in_common(const std::vector<Vertex>& from,
                                                  const std::vector<Vertex>& to) const {
        std::vector<bool> listed(topology_.vertex_count());
        for (const Vertex v : to) listed[v] = true;
        const auto both = std::find_if(from.begin(), from.end(), [&](Vertex v) { return listed[v]; });
        return both == from.end() ? std::nullopt : std::optional{*both};
    }

    // Saturates: the product of hostile dims need not fit.
    static std::uint64_t cells_of(const std::vector<std::uint32_t>& dims) {
        std::uint64_t cells = 1;
        for (const std::uint32_t n : dims) cells = std::min<std::uint64_t>(cells * n, UINT32_MAX);
        return cells;
    }

    static std::uint64_t link_count(const Rule& rule, const std::vector<Vertex>& from, const std::vector<Vertex>& to) {
        switch (rule.wiring) {
        case Wiring::each_to_each: return std::uint64_t{from.size()} * to.size();
        case Wiring::torus: return std::uint64_t{from.size()} * rule.dims.size();
        case Wiring::blocks:
        case Wiring::pairs:
        case Wiring::ring: break;
        }
        return from.size();
    }

    void wire(const Rule& rule, const std::vector<Vertex>& from, const std::vector<Vertex>& to) {
        const auto width = [&](std::size_t i) { return rule.widths[rule.widths.size() == 1 ? 0 : i]; };
        switch (rule.wiring) {
        case Wiring::each_to_each:
            for (const Vertex a : from)
                for (std::size_t i = 0; i < to.size(); ++i) join(rule, a, to[i], rule.links[0], width(i));
            break;
        case Wiring::blocks:
            for (std::size_t i = 0; i < from.size(); ++i)
                join(rule, from[i], to[i / (from.size() / to.size())], rule.links[0], width(0));
            break;
        case Wiring::pairs:
            for (std::size_t i = 0; i < from.size(); ++i) join(rule, from[i], to[i], rule.links[0], width(0));
            break;
        case Wiring::ring: wire_ring(rule, from, 1, from.size(), rule.links[0], width(0)); break;
        case Wiring::torus: {
            std::size_t stride = 1;
            for (std::size_t d = 0; d < rule.dims.size(); ++d) {
                const std::uint32_t link = rule.links[rule.links.size() == 1 ? 0 : d];
                wire_ring(rule, from, stride, rule.dims[d], link, width(d));
                stride *= rule.dims[d];
            }
            break;
        }
        }
    }

    // Rings of `length` members that stand `stride` apart. A ring of two is one link, of one none.
    void wire_ring(const Rule& rule, const std::vector<Vertex>& from, std::size_t stride, std::size_t length,
                   std::uint32_t link, std::uint32_t width) {
        for (std::size_t i = 0; i < from.size(); ++i) {
            const std::size_t place = i / stride % length;
            if (length == 1 || (length == 2 && place == 1)) continue;
            const bool last = place + 1 == length;
            join(rule, from[i], from[last ? i - (length - 1) * stride : i + stride], link, width);
        }
    }

    // The loader lets a port stand only where one member is named.
    static bool has_port(const std::vector<Selector>& selectors) {
        return selectors.size() == 1 && selectors.front().port.has_value();
    }

    void join(const Rule& rule, Vertex a, Vertex b, std::uint32_t type, std::uint32_t width) {
        const auto port = [&](const std::vector<Selector>& selectors, Vertex v) {
            return has_port(selectors) ? *selectors.front().port : ports_.take(v, width);
        };
        const LinkEnd from{a, port(rule.from, a)};
        const LinkEnd to{b, port(rule.to, b)};
        topology_.links.push_back({{from, to}, static_cast<std::uint16_t>(type), static_cast<std::uint16_t>(width)});
    }

    // Reports the first member whose ports do not suffice since this rule, and how many others there are.
    void check_ports(const Rule& rule, std::size_t first_link) {
        std::vector<Vertex> short_of;
        for (std::size_t i = first_link; i < topology_.links.size(); ++i) {
            const Link& link = topology_.links[i];
            for (const auto& [selectors, end] :
                 {std::pair{&rule.from, link.end[0]}, std::pair{&rule.to, link.end[1]}}) {
                if (has_port(*selectors)) continue; // reserve_port() has said what there is to say.
                const std::uint32_t ports = port_count(end.vertex);
                // Only the link that crosses the end: later ones start behind it and would repeat the mistake.
                const bool crosses = end.port <= ports && end.port + link.width > ports;
                if (ports > 0 && crosses) short_of.push_back(end.vertex);
            }
        }
        if (short_of.empty()) return;
        std::sort(short_of.begin(), short_of.end());
        const auto others = std::unique(short_of.begin(), short_of.end()) - short_of.begin() - 1;
        const Vertex v = short_of.front();
        std::string what = topology_.name_of(v) + " has " + counted(port_count(v), "port") + ", but " +
                           std::to_string(ports_.wanted(v)) + " are wired once this rule is carried out";
        if (others > 0) what += " (and " + counted(static_cast<std::uint64_t>(others), "other") + " likewise)";
        diagnostics_.add(rule.at, std::move(what), "wire fewer links or lower their width");
    }

    // ---- the whole fabric ----

    struct Dangling {
        Vertex first = 0;
        std::uint32_t count = 0;
        std::uint32_t most = 0; // Unwired ports of the member that has the most.
    };

    void check_dangling_ports() {
        std::vector<Dangling> of_devices(topology_.device_types.size());
        std::vector<Dangling> of_switches(topology_.switch_types.size());
        for (Vertex v = 0; v < topology_.vertex_count(); ++v) {
            const bool device = topology_.is_device(v);
            const std::uint32_t type =
                device ? topology_.devices[v].type : topology_.switches[topology_.switch_index(v)].type;
            const std::uint32_t spare =
                device ? topology_.device_types[type].spare_ports : topology_.switch_types[type].spare_ports;
            const std::uint32_t unwired = port_count(v) - ports_.wanted(v);
            if (unwired <= spare) continue;
            Dangling& entry = (device ? of_devices : of_switches)[type];
            if (entry.count++ == 0) entry.first = v;
            entry.most = std::max(entry.most, unwired);
        }
        for (std::size_t t = 0; t < of_devices.size(); ++t) report_dangling(of_devices[t], plan_.device_type_at[t]);
        for (std::size_t t = 0; t < of_switches.size(); ++t) report_dangling(of_switches[t], plan_.switch_type_at[t]);
    }

    void report_dangling(const Dangling& entry, Position at) {
        if (entry.count == 0) return;
        const std::uint32_t ports = port_count(entry.first);
        std::string what = "dangling ports: only " + std::to_string(ports_.wanted(entry.first)) + " of the " +
                           counted(ports, "port") + " of " + topology_.name_of(entry.first) + " are wired";
        if (entry.count > 1) what += " (and " + counted(entry.count - 1, "other") + " likewise)";
        diagnostics_.add(at, std::move(what), "wire the rest or declare spare_ports = " + std::to_string(entry.most));
    }

    // Every device must reach every other within max_hops. 64 searches run at once, one to a bit of a word, so that the
    // largest fabric costs 64 passes and not 4096.
    void check_distances() {
        const Graph graph{topology_};
        const auto devices = static_cast<std::uint32_t>(topology_.devices.size());
        for (std::uint32_t first = 0; first < devices && diagnostics_.empty(); first += 64)
            search(graph, first, std::min(devices - first, 64U));
    }

    void search(const Graph& graph, std::uint32_t first, std::uint32_t sources) {
        const std::uint64_t everyone = sources == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << sources) - 1;
        std::vector<std::uint64_t> seen(topology_.vertex_count());
        std::vector<std::uint64_t> front(topology_.vertex_count()); // Reached in the last step.
        for (std::uint32_t i = 0; i < sources; ++i) front[first + i] = seen[first + i] = std::uint64_t{1} << i;
        for (std::uint32_t hop = 0; hop < max_hops; ++hop) front = step(graph, front, seen, hop == 0);

        for (Vertex v = 0; v < topology_.devices.size(); ++v) {
            if (seen[v] == everyone) continue;
            const std::uint32_t from = first + static_cast<std::uint32_t>(std::countr_one(seen[v]));
            report_unreached(graph, from, v);
            return;
        }
    }

    std::vector<std::uint64_t> step(const Graph& graph, const std::vector<std::uint64_t>& front,
                                    std::vector<std::uint64_t>& seen, bool from_sources) const {
        std::vector<std::uint64_t> next(front.size());
        for (Vertex v = 0; v < front.size(); ++v) {
            if (front[v] == 0 || !(from_sources || topology_.forwards(v))) continue;
            for (const Graph::Edge& edge : graph.leaving(v)) next[edge.to] |= front[v];
        }
        for (std::size_t v = 0; v < next.size(); ++v) {
            next[v] &= ~seen[v];
            seen[v] |= next[v];
        }
        return next;
    }

    void report_unreached(const Graph& graph, Vertex from, Vertex to) {
        std::vector<bool> seen(topology_.vertex_count());
        std::vector<Vertex> queue{from};
        seen[from] = true;
        for (std::size_t i = 0; i < queue.size(); ++i) {
            if (i > 0 && !topology_.forwards(queue[i])) continue;
            for (const Graph::Edge& edge : graph.leaving(queue[i])) {
                if (!seen[edge.to]) queue.push_back(edge.to);
                seen[edge.to] = true;
            }
        }
        const std::string pair = topology_.name_of(to) + " from " + topology_.name_of(from);
        if (seen[to]) {
            diagnostics_.add(group_of(to).at,
                             "the way to " + pair + " is longer than " + std::to_string(max_hops) + " links",
                             "add switches or links that shorten it");
        } else {
            diagnostics_.add(group_of(to).at, "unreachable device: no way leads to " + pair,
                             "wire both to one fabric (devices pass traffic on only where forwards = true)");
        }
    }

    [[nodiscard]] const Group& group_of(Vertex device) const {
        std::uint32_t passed = 0;
        for (const Group& group : plan_.groups) {
            if (group.of_switches) continue;
            passed += group.count;
            if (device < passed) return group;
        }
        return plan_.groups.front(); // Not reached: every device comes from a group.
    }

    Plan& plan_;
    Topology& topology_;
    Diagnostics& diagnostics_;
    Names names_;
    PortBook ports_;
};

} // namespace

void carry_out(Plan& plan, Diagnostics& diagnostics) { Builder{plan, diagnostics}.run(); }

} // namespace nvlf::model
