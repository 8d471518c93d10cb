// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How the program and the processes that it started talk: a local socket that keeps packets apart, JSON in each. The
// socket has a name in a private folder, and who connects says its rank: nothing has to be inherited.
#pragma once

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

namespace nvlf::bench {

class Packets {
public:
    Packets() = default;
    explicit Packets(int fd) noexcept : fd_{fd} {}
    ~Packets();
    Packets(Packets&& other) noexcept;
    Packets& operator=(Packets&& other) noexcept;

    static Packets listen(const std::string& path);
    static Packets connect(const std::string& path);
    [[nodiscard]] Packets accept(std::chrono::milliseconds bound) const;

    void send(const nlohmann::json& packet) const;
    // Throws when the bound passes or the other side is gone.
    [[nodiscard]] nlohmann::json receive(std::chrono::milliseconds bound) const;
    // null when the other side is gone.
    [[nodiscard]] nlohmann::json receive() const;

private:
    void wait(std::chrono::milliseconds bound) const;
    int fd_ = -1;
};

} // namespace nvlf::bench
