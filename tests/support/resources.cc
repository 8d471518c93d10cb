// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reads /proc. A process may end while we look, which is not an error: it then counts as nothing.
#include "support/resources.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>

#include <sys/resource.h>
#include <sys/stat.h>

namespace nvlf::test {
namespace {

std::string proc(pid_t pid, const char* entry) {
    return "/proc/" + (pid == 0 ? std::string{"self"} : std::to_string(pid)) + '/' + entry;
}

std::uint64_t status_kib(pid_t pid, const std::string& field) {
    std::ifstream status{proc(pid, "status")};
    for (std::string line; std::getline(status, line);) {
        if (line.rfind(field + ":", 0) == 0) return std::stoull(line.substr(field.size() + 1));
    }
    return 0;
}

} // namespace

std::size_t open_descriptors(pid_t pid) {
    std::error_code error;
    std::filesystem::directory_iterator entries{proc(pid, "fd"), error};
    if (error) return 0;
    std::size_t count = 0;
    for (const auto end = std::filesystem::directory_iterator{}; entries != end; entries.increment(error)) ++count;
    // Our own listing holds a descriptor, which is among those listed.
    return pid == 0 ? count - 1 : count;
}

std::uint64_t resident_kib(pid_t pid) { return status_kib(pid, "VmRSS"); }
std::uint64_t resident_shared_kib(pid_t pid) { return status_kib(pid, "RssShmem"); }

std::uint64_t page_faults() {
    rusage usage{};
    if (::getrusage(RUSAGE_THREAD, &usage) != 0) throw std::system_error{errno, std::generic_category(), "getrusage"};
    return static_cast<std::uint64_t>(usage.ru_minflt);
}

std::set<std::string> shm_files() {
    std::set<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator{"/dev/shm", error})
        names.insert(entry.path().filename());
    return names;
}

std::uint64_t shm_file_bytes() {
    std::uint64_t sum = 0;
    for (const auto& name : shm_files()) {
        struct stat st {};
        if (::stat(("/dev/shm/" + name).c_str(), &st) == 0) sum += static_cast<std::uint64_t>(st.st_blocks) * 512;
    }
    return sum;
}

std::uint64_t memfd_bytes(const std::vector<pid_t>& pids) {
    std::map<ino_t, std::uint64_t> found;
    for (const pid_t pid : pids) {
        for (const char* what : {"fd", "map_files"}) {
            std::error_code error;
            for (const auto& entry : std::filesystem::directory_iterator{proc(pid, what), error}) {
                struct stat st {};
                if (std::filesystem::read_symlink(entry.path(), error).native().rfind("/memfd:", 0) == 0 &&
                    ::stat(entry.path().c_str(), &st) == 0)
                    found[st.st_ino] = static_cast<std::uint64_t>(st.st_blocks) * 512;
            }
        }
    }
    std::uint64_t sum = 0;
    for (const auto& [inode, bytes] : found) sum += bytes;
    return sum;
}

std::set<pid_t> processes_named(const std::string& comm) {
    std::set<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
        const std::string name = entry.path().filename();
        pid_t pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc{} || end != name.data() + name.size()) continue;
        // "pid (comm) state ...", where comm may hold anything, a parenthesis too. One that has ended and only waits for
        // its parent (Z), as orphans do for a lazy init, holds nothing any more.
        std::ifstream file{entry.path() / "stat"};
        std::string line;
        if (!std::getline(file, line)) continue;
        const auto open = line.find('(');
        const auto close = line.rfind(')');
        if (open == std::string::npos || close == std::string::npos || close + 2 >= line.size()) continue;
        if (line.substr(open + 1, close - open - 1) == comm && line[close + 2] != 'Z') found.insert(pid);
    }
    return found;
}

} // namespace nvlf::test
