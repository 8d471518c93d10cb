// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// control_fuzz - clients that send nvlfd whatever they like, in whatever order, and come and go as they please.
//
// The input is a script for up to four clients of the real server: well-formed commands whose fields are small numbers,
// bytes of the script, or something that an earlier reply held (handles, tokens, addresses: what no fuzzer guesses),
// raw bytes as a message, arrivals, deaths. After each step the server's books must balance, and in the end, when
// all clients are gone, nothing may be left: memory, endpoints, or descriptors.
#include <dirent.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "base/commands.hpp"
#include "daemon/server.hpp"
#include "model/presets.hpp"
#include "model/topology_loader.hpp"

namespace {

using namespace nvlf;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "control_fuzz: %s\n", what);
    std::abort();
}

std::size_t open_descriptors() {
    DIR* dir = ::opendir("/proc/self/fd");
    if (dir == nullptr) return 0;
    std::size_t count = 0;
    while (::readdir(dir) != nullptr) ++count;
    ::closedir(dir);
    return count;
}

struct Script {
    const std::uint8_t* at;
    const std::uint8_t* end;

    [[nodiscard]] bool done() const { return at == end; }
    std::uint8_t byte() { return done() ? std::uint8_t{0} : *at++; }
    void fill(std::byte* out, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(byte());
    }
};

// The last of everything that a reply gave: what a client could pass on.
struct Loot {
    std::array<std::uint32_t, 4> handles{};
    std::array<std::uint8_t, NVLF_TOKEN_LEN> token{};
    std::array<nvlf_addr, 2> addresses{};
    std::size_t next = 0;
};

class Run {
public:
    explicit Run(Script script) : script_{script}, log_{-1, daemon::Level::error, "fuzz"} {
        static const model::Topology topology = std::get<model::Topology>(
            model::load_topology(*model::preset_text(model::default_preset), model::default_preset));
        daemon::Server::Config config;
        config.topology = topology;
        config.owner = 1;
        config.limits.clients = 3;
        config.limits.guests = 1;
        config.limits.allocations = 12;
        config.limits.endpoints = 8;
        config.limits.endpoints_per_file = 4;
        config.limits.pending_accepts = 2;
        config.limits.descriptors_per_file = 16;
        config.limits.quota_bytes = 64ULL << 30; // Sparse.
        config.random = [this](std::span<std::byte> out) {
            for (std::byte& b : out) b = static_cast<std::byte>((random_ = random_ * 6364136223846793005U + 1) >> 56);
            return Errno{};
        };
        auto made = daemon::Server::create(std::move(config), log_);
        require(made.ok(), "the server cannot be made");
        server_ = std::move(*made);
        quiet_descriptors_ = open_descriptors();
    }

    void play() {
        // Bounded: a long script says nothing that many short ones do not.
        for (int steps = 0; steps < 300 && !script_.done(); ++steps) step();
        for (auto& client : clients_)
            if (client) server_->disconnect(*std::exchange(client, std::nullopt), "the end");
        // Held without a client to ask: a last one looks.
        const auto judge = server_->connect({1, 0, "judge"});
        require(judge.has_value(), "the last client is refused");
        nvlf_ioc_info info{};
        info.size = sizeof info;
        info.abi_wanted = NVLF_ABI_VERSION;
        const nvlf_msg head{NVLF_MSG_MAGIC, NVLF_CMD_GET_INFO, 0, 0};
        std::array<std::byte, sizeof head + sizeof info> message;
        std::memcpy(message.data(), &head, sizeof head);
        std::memcpy(message.data() + sizeof head, &info, sizeof info);
        server_->handle(*judge, message, 0, reply_);
        std::memcpy(&info, reply_.bytes.data() + sizeof head, sizeof info);
        require(info.endpoints == 0 && info.allocations == 0 && info.allocated_bytes == 0,
                "something outlived its owner");
        require(open_descriptors() == quiet_descriptors_, "descriptors leaked");
    }

private:
    void step() {
        const std::uint8_t what = script_.byte();
        auto& client = clients_[what % clients_.size()];
        if (!client) {
            client = server_->connect({100, what / 64U, "fuzz"}); // uid 0 to 3: root, owner, strangers.
            return;
        }
        switch (what / 4 % 16) {
        case 0: server_->disconnect(*std::exchange(client, std::nullopt), "as the script says"); return;
        case 1: raw(*client); return;
        default: command(*client, commands[script_.byte() % commands.size()]); return;
        }
    }

    void raw(daemon::ClientId client) {
        std::array<std::byte, 256> message;
        const std::size_t length = script_.byte();
        script_.fill(message.data(), length);
        send(client, std::span{message}.first(length), script_.byte() % 5);
    }

    void command(daemon::ClientId client, const Command& command) {
        std::array<std::byte, NVLF_MSG_BYTES> message{};
        const std::uint8_t shape = script_.byte();
        std::uint32_t size = command.size;
        if (shape % 16 == 1) size = 4 + script_.byte() * 3U;
        const nvlf_msg head{NVLF_MSG_MAGIC, command.cmd, shape, 0};
        std::memcpy(message.data(), &head, sizeof head);
        std::memcpy(message.data() + sizeof head, &size, sizeof size);
        // Words of the struct, one byte of script each: zero, small, loot, or all ones.
        std::byte* body = message.data() + sizeof head;
        if (shape % 16 == 2) script_.fill(body + 4, std::min<std::uint32_t>(size, command.size) - 4);
        else
            for (std::uint32_t at = 4; at + 4 <= size && at < 64; at += 4) {
                const std::uint32_t word = field(script_.byte());
                std::memcpy(body + at, &word, sizeof word);
            }
        place_loot(command, body, shape);
        send(client, std::span{message}.first(sizeof head + size), shape % 16 == 3 ? 1 : 0);
    }

    [[nodiscard]] std::uint32_t field(std::uint8_t choice) const {
        if (choice < 64) return choice % 16;
        if (choice < 96) return loot_.handles[choice % loot_.handles.size()];
        if (choice < 128) return 0xffffffffU;
        if (choice < 160) return 1U << (choice % 32);
        return 0;
    }

    void place_loot(const Command& command, std::byte* body, std::uint8_t shape) {
        const nvlf_addr& address = loot_.addresses[shape / 16 % 2];
        switch (command.cmd) {
        case NVLF_CMD_GET_INFO: {
            const std::uint32_t abi = NVLF_ABI_VERSION;
            if (shape % 16 != 4) std::memcpy(body + offsetof(nvlf_ioc_info, abi_wanted), &abi, sizeof abi);
            break;
        }
        case NVLF_CMD_MEM_ALLOC: { // The upper half of `bytes` would always be too much.
            const std::uint32_t zero = 0;
            std::memcpy(body + offsetof(nvlf_ioc_mem_alloc, bytes) + 4, &zero, sizeof zero);
            break;
        }
        case NVLF_CMD_MEM_IMPORT:
            std::memcpy(body + offsetof(nvlf_ioc_mem_import, token), loot_.token.data(), loot_.token.size());
            break;
        case NVLF_CMD_MEM_OPEN: { // One of four names, of little memory.
            const char name[2] = {static_cast<char>('a' + shape / 16 % 4), '\0'};
            std::memcpy(body + offsetof(nvlf_ioc_mem_open, name), name, sizeof name);
            const std::uint32_t zero = 0;
            std::memcpy(body + offsetof(nvlf_ioc_mem_open, bytes) + 4, &zero, sizeof zero);
            break;
        }
        case NVLF_CMD_EP_LOOKUP:
            std::memcpy(body + offsetof(nvlf_ioc_ep_lookup, addr), &address, sizeof address);
            break;
        case NVLF_CMD_EP_CONNECT:
            std::memcpy(body + offsetof(nvlf_ioc_ep_connect, addr), &address, sizeof address);
            break;
        case NVLF_CMD_EP_PROCESS:
            std::memcpy(body + offsetof(nvlf_ioc_ep_process, addr), &address, sizeof address);
            break;
        default: break;
        }
    }

    void send(daemon::ClientId client, std::span<const std::byte> message, std::size_t fds) {
        // Of exactly its size on the heap, so that ASan sees a read past its end.
        const std::vector<std::byte> exact(message.begin(), message.end());
        server_->handle(client, exact, fds, reply_);
        nvlf_msg head{};
        require(reply_.length >= sizeof head && reply_.length <= NVLF_MSG_BYTES, "a reply of impossible length");
        std::memcpy(&head, reply_.bytes.data(), sizeof head);
        require(head.magic == NVLF_MSG_MAGIC && head.error < 4096, "a malformed reply");
        require(head.error == 0 || reply_.fds.size() == 0, "descriptors with an error");
        if (head.error == 0) take_loot(head.cmd, reply_.bytes.data() + sizeof head);
        reply_.fds.clear();
    }

    void take_loot(std::uint32_t cmd, const std::byte* body) {
        const auto keep = [this](std::uint32_t handle) { loot_.handles[loot_.next++ % loot_.handles.size()] = handle; };
        if (cmd == NVLF_CMD_MEM_ALLOC) {
            nvlf_ioc_mem_alloc a;
            std::memcpy(&a, body, sizeof a);
            keep(a.handle);
        } else if (cmd == NVLF_CMD_MEM_EXPORT) {
            nvlf_ioc_mem_export a;
            std::memcpy(&a, body, sizeof a);
            std::copy(std::begin(a.token), std::end(a.token), loot_.token.begin());
        } else if (cmd == NVLF_CMD_MEM_IMPORT) {
            nvlf_ioc_mem_import a;
            std::memcpy(&a, body, sizeof a);
            require(a.bytes % NVLF_PAGE_SIZE == 0 && a.bytes > 0, "an import of impossible size");
            keep(a.handle);
        } else if (cmd == NVLF_CMD_MEM_OPEN) {
            nvlf_ioc_mem_open a;
            std::memcpy(&a, body, sizeof a);
            require(a.bytes % NVLF_PAGE_SIZE == 0 && a.bytes > 0, "named memory of impossible size");
            keep(a.handle);
        } else if (cmd == NVLF_CMD_EP_PUBLISH) {
            nvlf_ioc_ep_publish a;
            std::memcpy(&a, body, sizeof a);
            require(a.addr.epoch != 0, "an endpoint without an epoch");
            loot_.addresses[loot_.next++ % loot_.addresses.size()] = a.addr;
            keep(a.addr.endpoint);
        }
    }

    Script script_;
    daemon::Log log_;
    std::uint64_t random_ = 1;
    std::unique_ptr<daemon::Server> server_;
    std::array<std::optional<daemon::ClientId>, 4> clients_;
    daemon::Reply reply_;
    Loot loot_;
    std::size_t quiet_descriptors_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Run{Script{data, data + size}}.play();
    return 0;
}
