// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "places.hpp"

#include "failure.hpp"
#include "process.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

namespace nvlf::cli {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

// The folder of this very binary, links resolved: /usr/local/bin/nvlf may be a link into a build tree.
fs::path own_folder() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    return error ? fs::path{} : self.parent_path();
}

bool runnable(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

constexpr const char* kProvider = "libnvlf-fi.so";

std::vector<std::string> split(const std::string& path) {
    std::vector<std::string> parts;
    std::size_t at = 0;
    while (at <= path.size()) {
        const std::size_t colon = std::min(path.find(':', at), path.size());
        if (colon > at) parts.push_back(path.substr(at, colon - at));
        at = colon + 1;
    }
    return parts;
}

void add_once(std::vector<std::string>& folders, const std::string& folder) {
    for (const std::string& known : folders) {
        std::error_code error;
        if (known == folder || fs::equivalent(known, folder, error)) return;
    }
    folders.push_back(folder);
}

bool own_directory(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::geteuid();
}

} // namespace

std::string daemon_path() {
    if (const std::string named = variable("NVLF_NVLFD"); !named.empty()) {
        if (runnable(named)) return named;
        throw Failure{kFailed,
                      fmt::format("nvlfd: NVLF_NVLFD names {}, which is no program that can be executed", named)};
    }
    std::vector<std::string> looked;
    for (const fs::path& path : {own_folder() / "nvlfd", fs::path{NVLF_DAEMON}}) {
        if (runnable(path)) return path.string();
        looked.push_back(path.string());
    }
    throw Failure{kFailed,
                  fmt::format("nvlfd: not found; looked for {}; name it by NVLF_NVLFD", fmt::join(looked, " and "))};
}

std::string provider_dir() {
    std::vector<std::string> looked;
    const fs::path own = own_folder();
    for (const fs::path& folder : {own / NVLF_BIN_TO_PROVIDER, own / "../lib/libfabric", fs::path{NVLF_PROVIDER_DIR}}) {
        const fs::path clean = folder.lexically_normal();
        if (std::error_code error; fs::exists(clean / kProvider, error)) return clean.string();
        add_once(looked, clean.string());
    }
    throw Failure{kFailed, fmt::format("provider {}: not found; looked in {}", kProvider, fmt::join(looked, " and "))};
}

std::string provider_path(const std::string& ours) {
    std::string users = variable("FI_PROVIDER_PATH");
    std::string order;
    if (!users.empty() && users.front() == '@') {
        order = "@";
        users.erase(0, 1);
    }
    std::vector<std::string> folders{ours};
    for (const std::string& folder : split(users)) add_once(folders, folder);
    std::error_code error;
    if (users.empty() && fs::is_directory(NVLF_LIBFABRIC_PROVIDER_DIR, error))
        add_once(folders, NVLF_LIBFABRIC_PROVIDER_DIR);
    return order + fmt::format("{}", fmt::join(folders, ":"));
}

std::string socket_dir(const std::string& dir) {
    if (!dir.empty()) return dir;
    if (std::string named = variable("NVLF_DIR"); !named.empty()) return named;
    if (const std::string runtime = variable("XDG_RUNTIME_DIR");
        !runtime.empty() && runtime.front() == '/' && own_directory(runtime))
        return runtime + "/nvlf";
    const std::string tmp = variable("TMPDIR");
    return fmt::format("{}/nvlf-{}", !tmp.empty() && tmp.front() == '/' ? tmp : "/tmp", ::geteuid());
}

} // namespace nvlf::cli
