// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "view.hpp"

#include "failure.hpp"
#include "image.hpp"
#include "output.hpp"
#include "places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

namespace nvlf::cli {

namespace {

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

nvlf_open_args arguments(const Target& target, std::uint32_t flags) {
    nvlf_open_args args{};
    args.size = sizeof args;
    args.flags = flags;
    args.fabric = or_null(target.fabric);
    args.dir = or_null(target.dir);
    args.topology = or_null(target.topology);
    return args;
}

[[noreturn]] void fail_open(const Target& target, int error) {
    const char* words = ::nvlf_open_error();
    if (words != nullptr && *words != '\0') throw Failure{kFailed, words};
    throw Failure{kFailed, fmt::format("fabric {}: cannot open: {}", fabric_name(target), cause(error))};
}

struct CloseSnapshot {
    void operator()(nvlf_snapshot* snapshot) const noexcept { ::nvlf_snapshot_close(snapshot); }
};
using Snapshot = std::unique_ptr<nvlf_snapshot, CloseSnapshot>;

// Null where nothing runs and the library has no image.
Snapshot open_snapshot(const Target& target) {
    const nvlf_open_args args = arguments(target, NVLF_OPEN_NO_START);
    nvlf_snapshot* raw = nullptr;
    const int error = ::nvlf_snapshot_open(&args, &raw);
    if (error < 0 && error != -ENOENT) fail_open(target, error);
    return Snapshot{error < 0 ? nullptr : raw};
}

View view_of_file(const std::string& topology) {
    Image image = read_image(topology);
    if (!image.mistakes.empty()) throw Failure{kUsage, image.mistakes};
    return std::move(image.view);
}

template <class T>
std::vector<T> copied(const T* first, std::uint32_t count) {
    return first == nullptr ? std::vector<T>{} : std::vector<T>(first, first + count);
}

// What a selector may look like: a name, an index, or PREFIX[FIRST-LAST] and PREFIX[*] as in topology files.
struct Range {
    std::string prefix;
    std::uint32_t first = 0;
    std::uint32_t last = UINT32_MAX;
};

std::optional<std::uint32_t> number(std::string_view text) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<Range> range_of(const std::string& selector) {
    const auto open = selector.find('[');
    if (open == std::string::npos || selector.back() != ']') return std::nullopt;
    Range range{selector.substr(0, open)};
    const std::string_view inside = std::string_view{selector}.substr(open + 1, selector.size() - open - 2);
    if (inside == "*") return range;
    const auto dash = inside.find('-');
    const auto first = number(inside.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(inside.substr(dash + 1));
    if (!first || !last) return std::nullopt;
    range.first = *first;
    range.last = *last;
    return range;
}

bool fits(const nvlf_device& device, const std::string& selector, const std::optional<Range>& range) {
    const std::string name = text_of(device.name);
    if (!range) return name == selector || number(selector) == device.index;
    if (name.compare(0, range->prefix.size(), range->prefix) != 0) return false;
    const auto n = number(std::string_view{name}.substr(range->prefix.size()));
    return n && *n >= range->first && *n <= range->last;
}

} // namespace

View copy_of(const nvlf_state& state) {
    View view;
    // acquire is more than needed: the word only says whether somebody answers.
    view.running = __atomic_load_n(&state.serving, __ATOMIC_ACQUIRE) != 0;
    view.topology = text_of(state.topology);
    if (uuid_given(state.uuid)) view.uuid = uuid_text(state.uuid);
    view.nodes = state.nodes;
    view.assumed = state.assumed;
    view.figures = state.figures;
    view.devices = copied(::nvlf_state_devices(&state), state.device_count);
    view.switches = copied(::nvlf_state_switches(&state), state.switch_count);
    view.links = copied(::nvlf_state_links(&state), state.link_count);
    return view;
}

View view(const Target& target) {
    View seen;
    if (!target.topology.empty()) {
        seen = view_of_file(target.topology);
    } else if (const Snapshot snapshot = open_snapshot(target)) {
        std::size_t bytes = 0;
        seen = copy_of(*::nvlf_snapshot_state(snapshot.get(), &bytes));
    } else {
        // Of what would start there is no image: it is a file, or the library was installed without images.
        const char* topology = std::getenv("NVLF_TOPOLOGY");
        if (topology == nullptr || *topology == '\0') fail_open(target, -ENOENT);
        seen = view_of_file(topology);
    }
    seen.fabric = fabric_name(target);
    return seen;
}

std::string end_name(const View& view, const nvlf_link_end& end) {
    if (end.object == NVLF_OBJECT_DEVICE && end.index < view.devices.size())
        return text_of(view.devices[end.index].name);
    if (end.object == NVLF_OBJECT_SWITCH && end.index < view.switches.size())
        return text_of(view.switches[end.index].name);
    return "?";
}

std::vector<std::uint32_t> select_devices(const View& view, const std::vector<std::string>& selectors) {
    std::set<std::uint32_t> chosen;
    for (const std::string& selector : selectors) {
        const auto range = range_of(selector);
        bool any = false;
        for (std::uint32_t i = 0; i < view.devices.size(); ++i) {
            if (!fits(view.devices[i], selector, range)) continue;
            chosen.insert(i);
            any = true;
        }
        if (!any) {
            const std::string example = view.devices.empty() ? "" : text_of(view.devices.front().name);
            throw Failure{kUsage,
                          fmt::format("device {}: the topology {} has none of that name; `nvlf ls devices` lists "
                                      "them, and \"{}\", an index or PREFIX[0-3] selects them",
                                      printable(selector), view.topology, example)};
        }
    }
    if (!selectors.empty()) return {chosen.begin(), chosen.end()};
    std::vector<std::uint32_t> all(view.devices.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
}

Client try_connect(const Target& target) {
    const nvlf_open_args args = arguments(target, NVLF_OPEN_NO_START | NVLF_OPEN_GUEST);
    nvlf_fabric* raw = nullptr;
    const int error = ::nvlf_open(&args, &raw);
    if (error == -ENOENT) return nullptr;
    if (error < 0) fail_open(target, error);
    return Client{raw};
}

Client connect(const Target& target) {
    Client client = try_connect(target);
    if (client == nullptr)
        throw Failure{kFailed, fmt::format("fabric {}: none of this name runs in {}; `nvlf up` starts one",
                                           fabric_name(target), socket_dir(target.dir))};
    return client;
}

nvlf_ioc_info info_of(nvlf_fabric& fabric) {
    nvlf_ioc_info info{};
    if (const int error = ::nvlf_get_info(&fabric, &info); error < 0)
        throw Failure{kFailed, "fabric: cannot ask for its information: " + cause(error)};
    return info;
}

std::string fabric_name(const Target& target) {
    if (!target.fabric.empty()) return target.fabric;
    const char* name = std::getenv("NVLF_FABRIC");
    return name != nullptr && *name != '\0' ? name : "default";
}

} // namespace nvlf::cli
