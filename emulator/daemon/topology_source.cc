// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "daemon/topology_source.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "model/diagnostic.hpp"
#include "model/presets.hpp"
#include "model/topology_loader.hpp"

namespace nvlf::daemon {
namespace {

std::optional<std::string> read_file(const std::string& path, std::string& ret_why) {
    const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file) {
        ret_why = std::string{"cannot be opened: "} + ::strerrordesc_np(errno);
        return std::nullopt;
    }
    // One byte more than the loader takes: it then says that the file is too long.
    std::string text(model::max_file_bytes + 1, '\0');
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t got = ::read(file.get(), text.data() + length, text.size() - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            ret_why = std::string{"cannot be read: "} + ::strerrordesc_np(errno);
            return std::nullopt;
        }
        if (got == 0) break;
        length += static_cast<std::size_t>(got);
    }
    text.resize(length);
    return text;
}

std::string no_such_preset(const std::string& name) {
    const std::string_view near = model::closest_name(name, model::preset_names());
    std::string text = "there is no topology " + model::quoted(name);
    if (!near.empty()) text += "; did you mean \"" + std::string{near} + "\"?";
    return text + " (presets: " + model::list_names(model::preset_names()) +
           "; a file is named with its path, ./my.toml)";
}

} // namespace

std::optional<model::Topology> find_topology(const std::string& name_or_path, std::vector<std::string>& ret_mistakes) {
    std::string text;
    if (const auto preset = model::preset_text(name_or_path)) {
        text = *preset;
    } else if (name_or_path.find_first_of("/.") != std::string::npos) {
        std::string why;
        auto read = read_file(name_or_path, why);
        if (!read) {
            ret_mistakes.push_back("the topology file " + model::quoted(name_or_path) + ' ' + why);
            return std::nullopt;
        }
        text = std::move(*read);
    } else {
        ret_mistakes.push_back(no_such_preset(name_or_path));
        return std::nullopt;
    }
    auto loaded = model::load_topology(text, name_or_path);
    if (auto* topology = std::get_if<model::Topology>(&loaded)) return std::move(*topology);
    for (const model::Diagnostic& d : std::get<std::vector<model::Diagnostic>>(loaded))
        ret_mistakes.push_back(d.to_string());
    return std::nullopt;
}

} // namespace nvlf::daemon
