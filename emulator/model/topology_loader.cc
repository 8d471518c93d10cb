// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TOML into a Plan. Each table of the schema has one function here that reads as the table's definition: which keys,
// which of them must be there, within which bounds (table.hpp has the common part).
//
// A wrong value never stops the reading; it leaves its default behind, and the file as a whole is refused in the end.
#include "model/topology_loader.hpp"

#include "model/line_check.hpp"
#include "model/plan.hpp"
#include "model/selector.hpp"
#include "model/table.hpp"
#include "model/toml.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace nvlf::model {

namespace {

// Wide enough for anything that anybody has announced, narrow enough to catch a unit that is off by a thousand twice.
constexpr Bounds<std::uint64_t> rate_bounds{1'000'000, 1'000'000'000'000'000}; // 1 MB/s to 1000 TB/s
constexpr Bounds<std::uint64_t> latency_bounds{0, 1'000'000'000};              // 0 to 1 ms
constexpr Bounds<std::uint64_t> memory_bounds{2ULL << 20, 64ULL << 40};        // a fabric page to 64 TiB
constexpr Bounds<std::uint64_t> payload_bounds{1, 1U << 20};
constexpr Bounds<std::uint64_t> flit_bounds{1, 4096};
constexpr std::uint32_t max_flits = 64;
constexpr std::uint32_t max_engines = 4096;

constexpr std::int64_t schema_version = 1;

constexpr std::array<Choice<DeviceKind>, 2> kinds{{{"nvidia", DeviceKind::nvidia}, {"trainium", DeviceKind::trainium}}};
constexpr std::array<Choice<Protocol>, 5> protocols{{{"nvlink", Protocol::nvlink},
                                                     {"neuronlink", Protocol::neuronlink},
                                                     {"pcie", Protocol::pcie},
                                                     {"c2c", Protocol::c2c},
                                                     {"efa", Protocol::efa}}};
constexpr std::array<Choice<Wiring>, 5> wirings{{{"each_to_each", Wiring::each_to_each},
                                                 {"blocks", Wiring::blocks},
                                                 {"pairs", Wiring::pairs},
                                                 {"ring", Wiring::ring},
                                                 {"torus", Wiring::torus}}};

class Reader {
public:
    Reader(const toml::table& root, Diagnostics& diagnostics) : root_{root}, diagnostics_{diagnostics} {}

    Plan read_file() {
        Table top{root_, "the file", {1, 1}, diagnostics_};
        read_heading(top);
        read_types(top, "device", plan_.topology.device_types, &Reader::read_device_type);
        read_types(top, "switch", plan_.topology.switch_types, &Reader::read_switch_type);
        read_types(top, "link", plan_.topology.link_types, &Reader::read_link_type);
        read_list(top, "devices", max_groups, &Reader::read_device_group);
        read_list(top, "switches", max_groups, &Reader::read_switch_group);
        read_list(top, "wire", max_rules, &Reader::read_rule);
        top.finish();
        return std::move(plan_);
    }

private:
    void read_heading(Table& top) {
        top.integer("schema", Need::required, {schema_version, schema_version});
        Topology& topology = plan_.topology;
        if (auto name = top.text("name", Need::required, max_name_bytes, R"("my-fabric")"))
            topology.name = std::move(*name);
        if (auto text = top.text("description", Need::optional, max_text_bytes))
            topology.description = std::move(*text);
        topology.node_count = top.integer("nodes", Need::required, {1, max_nodes}).value_or(0);
    }

    // [device.KEY] and its like: one table, a sub-table a type.
    template <class Type>
    void read_types(Table& top, std::string_view noun, std::vector<Type>& types, void (Reader::*read)(Table&, Type&)) {
        const toml::node* node = top.get(noun, Need::optional);
        if (!node || !top.expect(*node, node->is_table(), noun, "a table of tables, [" + std::string{noun} + ".NAME]"))
            return;
        const toml::table& table = *node->as_table();
        if (table.size() > max_types) {
            diagnostics_.add(at(table.source()), std::to_string(table.size()) + " types of " + std::string{noun},
                             "at most " + std::to_string(max_types) + " are supported");
            return;
        }
        for (const auto& [key, value] : table) {
            const std::string title =
                '[' + std::string{noun} + '.' + std::string{key.str().substr(0, max_name_bytes)} + ']';
            const Position where = at(key.source());
            Type& type = types.emplace_back();
            type.key = key.str();
            positions_of(types).push_back(where);
            if (!value.is_table()) {
                diagnostics_.add(where, title + " is " + std::string{type_name(value)}, "it must be a table");
                continue;
            }
            Table inner{*value.as_table(), title, where, diagnostics_};
            (this->*read)(inner, type);
            inner.finish();
        }
    }

    std::vector<Position>& positions_of(const std::vector<DeviceType>&) { return plan_.device_type_at; }
    std::vector<Position>& positions_of(const std::vector<SwitchType>&) { return plan_.switch_type_at; }
    std::vector<Position>& positions_of(const std::vector<LinkType>&) { return link_type_at_; }

    void read_device_type(Table& t, DeviceType& type) {
        const auto kind = t.choice("kind", kinds);
        type.kind = kind.value_or(DeviceKind::nvidia);
        if (auto model = t.text("model", Need::required, max_model_bytes, R"("NVIDIA H100")"))
            type.model = std::move(*model);
        t.count("ports", Need::required, {1, max_ports}, type.ports);
        t.quantity("hbm", Need::required, Dimension::size, memory_bounds, type.hbm);
        t.quantity("hbm_rate", Need::required, Dimension::rate, rate_bounds, type.hbm_rate);
        t.quantity("port_latency", Need::required, Dimension::time, latency_bounds, type.port_latency);
        // Trainium reaches remote memory by DMA; whoever gives an engine count says the rest as well.
        const bool engines = kind == DeviceKind::trainium || t.get("dma_engines", Need::optional) != nullptr;
        const Need need = engines ? Need::required : Need::optional;
        t.count("dma_engines", need, {1, max_engines}, type.dma.count);
        t.quantity("dma_startup", need, Dimension::time, latency_bounds, type.dma.startup);
        t.quantity("dma_rate", need, Dimension::rate, rate_bounds, type.dma.rate);
        type.forwards = t.boolean("forwards").value_or(false);
        type.spare_ports = spare_ports(t, type.ports.value);
    }

    void read_switch_type(Table& t, SwitchType& type) {
        if (auto model = t.text("model", Need::required, max_model_bytes, R"("NVSwitch 4")"))
            type.model = std::move(*model);
        t.count("ports", Need::required, {1, max_ports}, type.ports);
        t.quantity("latency", Need::required, Dimension::time, latency_bounds, type.latency);
        type.spare_ports = spare_ports(t, type.ports.value);
    }

    static std::uint32_t spare_ports(Table& t, std::uint32_t ports) {
        return t.integer("spare_ports", Need::optional, {0, ports == 0 ? max_ports : ports}).value_or(0);
    }

    void read_link_type(Table& t, LinkType& type) {
        type.protocol = t.choice("protocol", protocols).value_or(Protocol::nvlink);
        type.generation = t.integer("generation", Need::required, {1, 99}).value_or(1);
        t.quantity("rate", Need::required, Dimension::rate, rate_bounds, type.rate);
        t.quantity("raw_rate", Need::required, Dimension::rate, rate_bounds, type.raw_rate);
        t.quantity("latency", Need::required, Dimension::time, latency_bounds, type.latency);
        t.quantity("max_payload", Need::required, Dimension::size, payload_bounds, type.max_payload);
        t.quantity("flit", Need::required, Dimension::size, flit_bounds, type.flit);
        t.count("header_flits", Need::required, {0, max_flits}, type.header_flits);
        t.count("address_flits", Need::required, {0, max_flits}, type.address_flits);
        t.count("byte_enable_flits", Need::required, {0, max_flits}, type.byte_enable_flits);
        if (type.rate.value > 0 && type.raw_rate.value > 0 && type.raw_rate.value < type.rate.value) {
            diagnostics_.add(t.position(),
                             "the raw_rate of " + t.title() + " (" +
                                 format_quantity(type.raw_rate.value, Dimension::rate) + ") is below its rate (" +
                                 format_quantity(type.rate.value, Dimension::rate) + ")",
                             "the line carries at least the payload");
        }
    }

    // [[devices]] and its like.
    void read_list(Table& top, std::string_view key, std::uint32_t most, void (Reader::*read)(Table&)) {
        const toml::node* node = top.get(key, Need::optional);
        if (!node) return;
        const std::string title = "[[" + std::string{key} + "]]";
        const toml::array* list = node->as_array();
        const bool of_tables =
            list && std::all_of(list->begin(), list->end(), [](const toml::node& n) { return n.is_table(); });
        if (!of_tables) {
            plan_.broken_prefixes.emplace(); // Whatever it was to define is not to be missed again.
            diagnostics_.add(at(node->source()), std::string{key} + " is not a list of tables",
                             "begin each with " + title);
            return;
        }
        if (list->size() > most) {
            diagnostics_.add(at(list->get(most)->source()), std::to_string(list->size()) + " tables " + title,
                             "at most " + std::to_string(most) + " are supported");
            return;
        }
        for (const toml::node& entry : *list) {
            Table t{*entry.as_table(), title, at(entry.source()), diagnostics_};
            (this->*read)(t);
            t.finish();
        }
    }

    void read_device_group(Table& t) {
        Group group;
        group.at = t.position();
        read_members(t, group, plan_.topology.device_types, "device", max_devices);
        group.first_node = t.integer("first_node", Need::optional, {0, max_nodes - 1}).value_or(0);
        group.per_node = t.integer("per_node", Need::optional, {1, max_devices}).value_or(std::max(group.count, 1U));
        keep(group);
    }

    void read_switch_group(Table& t) {
        Group group;
        group.of_switches = true;
        group.at = t.position();
        read_members(t, group, plan_.topology.switch_types, "switch", max_switches);
        group.first_plane = t.integer("first_plane", Need::optional, {0, max_switches - 1}).value_or(0);
        group.planes = t.integer("planes", Need::optional, {1, max_switches}).value_or(std::max(group.count, 1U));
        keep(group);
    }

    template <class Type>
    void read_members(Table& t, Group& group, const std::vector<Type>& types, std::string_view noun,
                      std::uint32_t most) {
        if (auto prefix = t.text("prefix", Need::required, max_prefix_bytes, R"("gpu")")) {
            if (is_prefix(*prefix)) {
                group.prefix = std::move(*prefix);
            } else {
                diagnostics_.add(
                    t.position(), quoted(*prefix) + " cannot be a prefix",
                    "begin with a letter, go on with letters, digits, '-' or '_', and do not end in a digit");
            }
        }
        group.type = type_reference(t, "type", types, noun);
        group.first = t.integer("first", Need::optional, {0, max_member_number - max_devices}).value_or(0);
        group.count = t.integer("count", Need::required, {1, most}).value_or(0);
    }

    void keep(Group& group) {
        if (group.prefix.empty() || group.count == 0) {
            plan_.broken_prefixes.insert(group.prefix);
        } else {
            plan_.groups.push_back(std::move(group));
        }
    }

    template <class Type>
    std::uint32_t type_reference(Table& t, std::string_view key, const std::vector<Type>& types,
                                 std::string_view noun) {
        const toml::node* node = t.get(key, Need::required, "\"NAME\" of a [" + std::string{noun} + ".NAME]");
        if (!node || !t.expect(*node, node->is_string(), key, "a string")) return unknown_type;
        return find_type(t, *node, types, noun);
    }

    template <class Type>
    std::uint32_t find_type(const Table& t, const toml::node& node, const std::vector<Type>& types,
                            std::string_view noun) {
        const std::string& name = node.as_string()->get();
        std::vector<std::string_view> names;
        for (const Type& type : types) {
            if (type.key == name) return static_cast<std::uint32_t>(names.size());
            names.push_back(type.key);
        }
        const auto near = t.likely(name, names);
        diagnostics_.add(at(node.source()), "unknown " + std::string{noun} + " type " + quoted(name),
                         near.empty() ? "define [" + std::string{noun} + ".NAME] or name one that is defined"
                                      : "did you mean " + quoted(near));
        return unknown_type;
    }

    void read_rule(Table& t) {
        Rule rule;
        rule.at = t.position();
        const auto wiring = t.choice("rule", wirings);
        rule.wiring = wiring.value_or(Wiring::pairs);
        const bool torus = rule.wiring == Wiring::torus;
        const bool two_sided = !torus && rule.wiring != Wiring::ring;
        bool sound = wiring.has_value();

        sound = read_selectors(t, "from", rule.from) && sound;
        if (two_sided || !wiring) sound = read_selectors(t, "to", rule.to) && sound;
        rule.links = link_references(t);
        if (torus || !wiring) rule.dims = t.integers("dims", torus ? Need::required : Need::optional, {1, max_devices});
        rule.widths = t.integers("width", Need::optional, {1, max_ports});
        const bool width_given = t.get("width", Need::optional) != nullptr;
        if (!width_given) rule.widths = {1};

        sound = sound && !rule.links.empty() && !rule.widths.empty() && (!torus || !rule.dims.empty());
        if (sound && lists_fit(t, rule) && ports_fit(rule)) plan_.rules.push_back(std::move(rule));
    }

    // Lists where one value would be expected belong to certain rules only.
    bool lists_fit(Table& t, const Rule& rule) {
        const bool torus = rule.wiring == Wiring::torus;
        const bool links_fit = rule.links.size() == 1 || (torus && rule.links.size() == rule.dims.size());
        if (!links_fit) {
            t.wrong(t.position(), "link lists " + std::to_string(rule.links.size()) + " types",
                    torus ? "give one, or one for each dimension" : "give one");
        }
        const bool per_member = rule.wiring == Wiring::each_to_each; // Checked when the members are known.
        const bool widths_fit =
            rule.widths.size() == 1 || per_member || (torus && rule.widths.size() == rule.dims.size());
        if (!widths_fit) {
            t.wrong(t.position(), "width lists " + std::to_string(rule.widths.size()) + " values",
                    torus ? "give one, or one for each dimension" : "give one");
        }
        return links_fit && widths_fit;
    }

    // A port names one end of one link.
    bool ports_fit(const Rule& rule) {
        for (const auto* selectors : {&rule.from, &rule.to}) {
            for (const Selector& selector : *selectors) {
                if (!selector.port || (rule.wiring == Wiring::pairs && selectors->size() == 1)) continue;
                diagnostics_.add(selector.at, quoted(selector.text) + " names a port where several links begin or end",
                                 "use rule = \"pairs\" with one member on either side");
                return false;
            }
        }
        return true;
    }

    std::vector<std::uint32_t> link_references(Table& t) {
        std::vector<std::uint32_t> found;
        const toml::node* node = t.get("link", Need::required, "\"NAME\" of a [link.NAME]");
        if (!node) return found;
        const auto add = [&](const toml::node& name) {
            if (t.expect(name, name.is_string(), "link", "a string or a list of strings"))
                found.push_back(find_type(t, name, plan_.topology.link_types, "link"));
        };
        if (const toml::array* list = node->as_array()) {
            if (t.length_fits(*list, "link"))
                for (const toml::node& name : *list) add(name);
        } else {
            add(*node);
        }
        return found;
    }

    bool read_selectors(Table& t, std::string_view key, std::vector<Selector>& selectors) {
        const toml::node* node = t.get(key, Need::required, R"("gpu[0-7]")");
        if (!node) return false;
        bool sound = true;
        const auto add = [&](const toml::node& entry) {
            if (!t.expect(entry, entry.is_string(), key, "a string or a list of strings")) {
                sound = false;
                return;
            }
            const std::string& text = entry.as_string()->get();
            auto selector = parse_selector(text);
            if (!selector) {
                t.wrong(at(entry.source()), std::string{key} + " has " + quoted(text),
                        R"(write "gpu3", "gpu[0-7]", "gpu[*]" or, for port 5 of it, "gpu3:5")");
                sound = false;
                return;
            }
            selector->at = at(entry.source());
            selectors.push_back(std::move(*selector));
        };
        if (const toml::array* list = node->as_array()) {
            if (!t.length_fits(*list, key)) return false;
            for (const toml::node& entry : *list) add(entry);
        } else {
            add(*node);
        }
        return sound;
    }

    const toml::table& root_;
    Diagnostics& diagnostics_;
    Plan plan_;
    std::vector<Position> link_type_at_;
};

void parse(std::string_view text, Diagnostics& diagnostics, Plan& plan) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3); // A byte order mark, which some editors write.
    if (!check_lines(text, diagnostics)) return;
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
        const toml::parse_error& error = parsed.error();
        diagnostics.add(at(error.source()), "not TOML: " + std::string{error.description()},
                        "the rest of the file was not looked at");
        return;
    }
    plan = Reader{parsed.table(), diagnostics}.read_file();
    carry_out(plan, diagnostics);
}

} // namespace

LoadResult load_topology(std::string_view text, std::string_view file) {
    Diagnostics diagnostics{file};
    Plan plan;
    parse(text, diagnostics, plan);
    if (!diagnostics.empty()) return std::move(diagnostics).take();
    return std::move(plan.topology);
}

} // namespace nvlf::model
