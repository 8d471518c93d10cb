// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TOML into a Plan. Each table of the schema has one function here that reads as the table's definition: which keys,
// which of them must be there, within which bounds. `Table` carries the common part: it remembers which keys were asked
// for, so that whatever is left over is an unknown key, and the closest key asked for is what was probably meant.
//
// A wrong value never stops the reading; it leaves its default behind, and the file as a whole is refused in the end.
#include "model/topology_loader.hpp"

#include "model/plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

// No exceptions from the parser, and nesting that no stack can fail on: the schema needs three levels.
//
// toml++ 3.3 asserts that a table header begins like a key before it looks whether it does: "[=" would abort the process,
// and with NDEBUG, where its assertions become promises to the compiler, do anything. The check that follows reports the
// mistake properly, so the assertions are switched off; tests/fuzz/topology_fuzz.cc watches over what that leaves.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

namespace nvlf::model {

namespace {

template <class T>
struct Bounds {
    T least;
    T most;
};

// Wide enough for anything that anybody has announced, narrow enough to catch a unit that is off by a thousand twice.
constexpr Bounds<std::uint64_t> rate_bounds{1'000'000, 1'000'000'000'000'000}; // 1 MB/s to 1000 TB/s
constexpr Bounds<std::uint64_t> latency_bounds{0, 1'000'000'000};              // 0 to 1 ms
constexpr Bounds<std::uint64_t> memory_bounds{2ULL << 20, 64ULL << 40};        // a fabric page to 64 TiB
constexpr Bounds<std::uint64_t> payload_bounds{1, 1U << 20};
constexpr Bounds<std::uint64_t> flit_bounds{1, 4096};
constexpr std::uint32_t max_flits = 64;
constexpr std::uint32_t max_engines = 4096;
constexpr std::uint32_t max_member_number = 999'999;
constexpr std::size_t max_prefix_bytes = 16; // With six digits well below max_name_bytes.
constexpr std::size_t max_list_entries = max_devices;
static_assert(max_prefix_bytes + 6 <= max_name_bytes);

constexpr std::int64_t schema_version = 1;

Position at(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

std::string_view type_name(const toml::node& node) {
    switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a decimal number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
    }
}

template <class E>
struct Choice {
    std::string_view name;
    E value;
};

constexpr std::array<Choice<Standing>, 4> standings{{{"published", Standing::published},
                                                     {"measured", Standing::measured},
                                                     {"derived", Standing::derived},
                                                     {"assumed", Standing::assumed}}};
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

enum class Need : bool { optional, required };

// One table of the file, and the keys that its reader has asked for.
class Table {
public:
    Table(const toml::table& table, std::string title, Position where, Diagnostics& diagnostics)
        : table_{table}, title_{std::move(title)}, at_{where}, diagnostics_{diagnostics} {}

    [[nodiscard]] Position position() const noexcept { return at_; }
    [[nodiscard]] const std::string& title() const noexcept { return title_; }

    void wrong(Position where, std::string what, std::string fix) {
        diagnostics_.add(where, std::move(what), std::move(fix));
    }

    // The value, or null when it is not there (which is reported if it is needed).
    const toml::node* get(std::string_view key, Need need, std::string_view example = {}) {
        if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
        const toml::node* node = table_.get(key);
        if (!node && need == Need::required) {
            std::string fix = "add " + std::string{key};
            if (!example.empty()) fix += " = " + std::string{example};
            wrong(at_, title_ + " has no " + std::string{key}, std::move(fix));
        }
        return node;
    }

    // True if the node is of that kind; otherwise reports.
    bool expect(const toml::node& node, bool is, std::string_view key, std::string_view wanted) {
        if (!is) {
            wrong(at(node.source()), std::string{key} + " is " + std::string{type_name(node)},
                  "it must be " + std::string{wanted});
        }
        return is;
    }

    std::optional<std::string> text(std::string_view key, Need need, std::size_t most, std::string_view example = {}) {
        const toml::node* node = get(key, need, example);
        if (!node || !expect(*node, node->is_string(), key, "a string")) return std::nullopt;
        const std::string& value = node->as_string()->get();
        if (value.empty() || value.size() > most) {
            wrong(at(node->source()), std::string{key} + " is " + std::to_string(value.size()) + " bytes long",
                  "it must be 1 to " + std::to_string(most));
            return std::nullopt;
        }
        const bool control = std::any_of(value.begin(), value.end(), [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
        });
        if (control) {
            wrong(at(node->source()), std::string{key} + " contains a control character",
                  "write printable text on one line");
            return std::nullopt;
        }
        return value;
    }

    std::optional<std::uint32_t> integer(std::string_view key, Need need, Bounds<std::uint32_t> bounds) {
        const toml::node* node = get(key, need, std::to_string(std::max(bounds.least, 1U)));
        if (!node) return std::nullopt;
        return integer_of(*node, key, bounds);
    }

    std::optional<std::uint32_t> integer_of(const toml::node& node, std::string_view key,
                                            Bounds<std::uint32_t> bounds) {
        if (!expect(node, node.is_integer(), key, "an integer")) return std::nullopt;
        const std::int64_t value = node.as_integer()->get();
        if (value < bounds.least || value > bounds.most) {
            wrong(at(node.source()), std::string{key} + " is " + std::to_string(value),
                  "it must be " + std::to_string(bounds.least) +
                      (bounds.least == bounds.most ? "" : " to " + std::to_string(bounds.most)));
            return std::nullopt;
        }
        return static_cast<std::uint32_t>(value);
    }

    // One integer or a list of them.
    std::vector<std::uint32_t> integers(std::string_view key, Need need, Bounds<std::uint32_t> bounds) {
        std::vector<std::uint32_t> values;
        const toml::node* node = get(key, need, "[1]");
        if (!node) return values;
        if (const toml::array* list = node->as_array()) {
            if (!length_fits(*list, key)) return values;
            for (const toml::node& entry : *list)
                if (const auto value = integer_of(entry, key, bounds)) values.push_back(*value);
            if (values.size() != list->size()) values.clear();
        } else if (expect(*node, node->is_integer(), key, "an integer or a list of integers")) {
            if (const auto value = integer_of(*node, key, bounds)) values.push_back(*value);
        }
        return values;
    }

    bool length_fits(const toml::array& list, std::string_view key) {
        if (!list.empty() && list.size() <= max_list_entries) return true;
        wrong(at(list.source()), std::string{key} + " lists " + std::to_string(list.size()) + " entries",
              "it must list 1 to " + std::to_string(max_list_entries));
        return false;
    }

    std::optional<bool> boolean(std::string_view key) {
        const toml::node* node = get(key, Need::optional);
        if (!node || !expect(*node, node->is_boolean(), key, "true or false")) return std::nullopt;
        return node->as_boolean()->get();
    }

    static std::string joined(std::span<const std::string_view> names) {
        std::string text;
        for (const std::string_view name : names) text += (text.empty() ? "" : "|") + std::string{name};
        return text;
    }

    template <class E, std::size_t N>
    std::optional<E> choice(std::string_view key, const std::array<Choice<E>, N>& choices) {
        std::array<std::string_view, N> names;
        std::transform(choices.begin(), choices.end(), names.begin(), [](const Choice<E>& c) { return c.name; });
        const toml::node* node = get(key, Need::required, '"' + joined(names) + '"');
        if (!node || !expect(*node, node->is_string(), key, "a string")) return std::nullopt;
        const std::string& value = node->as_string()->get();
        for (const Choice<E>& c : choices)
            if (c.name == value) return c.value;
        const auto near = likely(value, names);
        wrong(at(node->source()), "unknown " + std::string{key} + ' ' + quoted(value),
              near.empty() ? "choose from " + list_names(names) : "did you mean " + quoted(near));
        return std::nullopt;
    }

    // A hardware figure: { value = ..., source = ..., ref = ... }. `read` turns the value node into the figure.
    template <class T, class Read>
    std::optional<T> figure(std::string_view key, Need need, std::string_view example, Sourced<T>& out, Read read) {
        const std::string whole =
            "{ value = " + std::string{example} + R"(, source = "published|measured|derived|assumed", ref = "..." })";
        const toml::node* node = get(key, need, whole);
        if (!node) return std::nullopt;
        if (!node->is_table()) {
            wrong(at(node->source()), std::string{key} + " has no source and no ref", "write " + whole);
            return std::nullopt;
        }
        Table inner{*node->as_table(), std::string{key}, at(node->source()), diagnostics_};
        std::optional<T> result;
        if (const toml::node* value = inner.get("value", Need::required, example)) result = read(inner, *value);
        if (const auto standing = inner.choice("source", standings)) out.standing = *standing;
        if (auto reference = inner.text("ref", Need::required, max_text_bytes, R"("who says so, or the formula")"))
            out.reference = std::move(*reference);
        inner.finish();
        if (result) out.value = *result;
        return result;
    }

    void quantity(std::string_view key, Need need, Dimension dimension, Bounds<std::uint64_t> bounds,
                  Sourced<std::uint64_t>& out) {
        const std::string example = '"' + format_quantity(example_of(dimension), dimension) + '"';
        figure(key, need, example, out, [&](Table& inner, const toml::node& node) -> std::optional<std::uint64_t> {
            if (!node.is_string()) {
                inner.wrong(at(node.source()), std::string{key} + " is " + std::string{type_name(node)},
                            "write a number with its unit such as " + example);
                return std::nullopt;
            }
            Quantity read = parse_quantity(node.as_string()->get(), dimension);
            if (!read.problem.empty()) {
                inner.wrong(at(node.source()), std::string{key} + ' ' + read.problem, read.fix);
                return std::nullopt;
            }
            if (read.value < bounds.least || read.value > bounds.most) {
                inner.wrong(at(node.source()), std::string{key} + " is " + format_quantity(read.value, dimension),
                            "it must be " + format_quantity(bounds.least, dimension) + " to " +
                                format_quantity(bounds.most, dimension));
                return std::nullopt;
            }
            return read.value;
        });
    }

    void count(std::string_view key, Need need, Bounds<std::uint32_t> bounds, Sourced<std::uint32_t>& out) {
        figure(key, need, "18", out,
               [&](Table& inner, const toml::node& node) { return inner.integer_of(node, key, bounds); });
    }

    // What was probably meant; nothing once the answer would not be shown, so that a file of a hundred thousand wrong
    // words costs no hundred thousand comparisons.
    [[nodiscard]] std::string_view likely(std::string_view name, std::span<const std::string_view> names) const {
        return diagnostics_.full() ? std::string_view{} : closest_name(name, names);
    }

    // Whatever nobody asked for is unknown.
    void finish() {
        for (const auto& [key, node] : table_) {
            if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
            const auto near = likely(key.str(), asked_);
            wrong(at(key.source()), "unknown key " + quoted(key.str()) + " in " + title_,
                  near.empty() ? "known are " + list_names(asked_) : "did you mean " + quoted(near));
        }
    }

private:
    static std::uint64_t example_of(Dimension dimension) {
        switch (dimension) {
        case Dimension::time: return 100'000;
        case Dimension::size: return 256;
        case Dimension::rate: return 25'000'000'000;
        }
        return 1;
    }

    const toml::table& table_;
    std::string title_;
    Position at_;
    Diagnostics& diagnostics_;
    std::vector<std::string_view> asked_;
};

// ---- names and selectors ----

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters, digits, '-' and '_', beginning with a letter and not ending in a digit: "gpu1" and "2" would make "gpu12",
// which is also "gpu" and "12".
bool is_prefix(std::string_view text) {
    return !text.empty() && text.size() <= max_prefix_bytes && is_letter(text.front()) && !is_digit(text.back()) &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '-'; });
}

// Takes a number off the front; nothing when there is none or it exceeds `most`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::uint32_t most) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value > most) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take(std::string_view& text, std::string_view token) {
    if (text.substr(0, token.size()) != token) return false;
    text.remove_prefix(token.size());
    return true;
}

// gpu3, gpu3:5, gpu[0-7], gpu[*]
std::optional<Selector> parse_selector(std::string_view text) {
    Selector selector;
    selector.text = text;
    // A name without a bracket ends in its number; the prefix is what is left before it.
    std::size_t prefix_end = text.find('[');
    if (prefix_end == std::string_view::npos) {
        prefix_end = std::min(text.find(':'), text.size());
        while (prefix_end > 0 && is_digit(text[prefix_end - 1])) --prefix_end;
    }
    if (!is_prefix(text.substr(0, prefix_end))) return std::nullopt;
    selector.prefix = text.substr(0, prefix_end);
    text.remove_prefix(prefix_end);

    const bool range = take(text, "[");
    if (range && take(text, "*]")) {
        selector.all = true;
        return text.empty() ? std::optional{selector} : std::nullopt;
    }
    const auto first = take_number(text, max_member_number);
    if (!first) return std::nullopt;
    selector.first = selector.last = *first;
    if (range) {
        if (take(text, "-")) {
            const auto last = take_number(text, max_member_number);
            if (!last || *last < *first) return std::nullopt;
            selector.last = *last;
        }
        if (!take(text, "]")) return std::nullopt;
    } else if (take(text, ":")) {
        selector.port = take_number(text, max_ports);
        if (!selector.port) return std::nullopt;
    }
    return text.empty() ? std::optional{selector} : std::nullopt;
}

// ---- the file ----

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

// One line of the file, looked at before the parser sees it. What toml++ 3.3 cannot be given:
//  - lines without end: a dotted key nests a level a dot, unbounded, and needs stack for each;
//  - letters beyond ASCII outside of strings and comments, or in a multi-line string: its test for exotic blanks runs into
//    __builtin_unreachable() for most of them. The schema has no use for either.
// Returns the column of the fault and what to say of it; column 0 when there is none.
struct LineFault {
    std::size_t column = 0;
    std::string_view what;
    std::string_view fix;
};

LineFault fault_of_line(std::string_view line) {
    if (line.size() > max_line_bytes) return {max_line_bytes + 1, "the line is longer than 1024 bytes", "break it up"};
    static_assert(max_line_bytes == 1024);
    char quote = '\0'; // Of the string that we are in.
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote != '\0') {
            if (c == '\\' && quote == '"') ++i; // Whatever is escaped does not end the string.
            if (c == quote) quote = '\0';
        } else if (c == '#') {
            break;
        } else if (c == '"' || c == '\'') {
            if (i + 2 < line.size() && line[i + 1] == c && line[i + 2] == c)
                return {i + 1, "a multi-line string", "write it on one line, between single marks"};
            quote = c;
        } else if (static_cast<unsigned char>(c) >= 0x80) {
            return {i + 1, "a letter beyond ASCII outside of strings and comments", "put it in quotation marks"};
        }
    }
    return {};
}

// True if the text may be parsed.
bool check_lines(std::string_view text, Diagnostics& diagnostics) {
    if (text.size() > max_file_bytes) {
        diagnostics.add({1, 1}, "the file has " + std::to_string(text.size()) + " bytes",
                        "at most " + std::to_string(max_file_bytes) + " are supported");
        return false;
    }
    for (std::uint32_t number = 1; !text.empty(); ++number) {
        const std::size_t length = std::min(text.find('\n'), text.size());
        const LineFault fault = fault_of_line(text.substr(0, length));
        if (fault.column > 0) {
            diagnostics.add({number, static_cast<std::uint32_t>(fault.column)}, std::string{fault.what},
                            std::string{fault.fix});
        }
        text.remove_prefix(std::min(length + 1, text.size()));
    }
    return diagnostics.empty();
}

void parse(std::string_view text, Diagnostics& diagnostics, Plan& plan) {
    take(text, "\xEF\xBB\xBF"); // A byte order mark, which some editors write.
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
