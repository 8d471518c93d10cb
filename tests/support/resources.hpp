// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Counting what must come back to the level before: descriptors, /dev/shm, memory, children. A leak test takes a
// snapshot, does its work, and compares.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace nvlf::test {

[[nodiscard]] std::size_t open_descriptors(pid_t pid = 0);      // Entries of /proc/<pid>/fd; 0: this process.
[[nodiscard]] std::uint64_t resident_kib(pid_t pid = 0);        // VmRSS.
[[nodiscard]] std::uint64_t resident_shared_kib(pid_t pid = 0); // RssShmem: memfd and shared anonymous pages.
[[nodiscard]] std::uint64_t page_faults();       // Of the calling thread, without those that read a disk.
[[nodiscard]] std::set<std::string> shm_files(); // Names in /dev/shm.
[[nodiscard]] std::uint64_t shm_file_bytes();    // Pages behind files in /dev/shm.
// Pages behind memfds that these processes have open or, which only root may see, mapped; each memfd once.
[[nodiscard]] std::uint64_t memfd_bytes(const std::vector<pid_t>& pids);
[[nodiscard]] std::set<pid_t>
processes_named(const std::string& comm); // Running ones, by the name in /proc (15 characters).

} // namespace nvlf::test
