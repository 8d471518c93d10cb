// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The real server on a bench: no sockets, no loop, no clock, and random numbers that count. A test plays its clients.
#pragma once

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/commands.hpp"
#include "base/mapping.hpp"
#include "daemon/server.hpp"
#include "model/presets.hpp"
#include "model/topology_loader.hpp"

namespace nvlf::test {

inline model::Topology preset(std::string_view name) {
    auto loaded = model::load_topology(*model::preset_text(name), name);
    return std::get<model::Topology>(std::move(loaded));
}

// What came back: the errno, the struct as it then was, and the descriptors at their indices.
template <class T>
struct Answer {
    int error = 0;
    T a{};
    daemon::Reply reply;

    [[nodiscard]] int fd(std::uint32_t index) const { return reply.fds.get(index); }
};

class Bench {
public:
    static constexpr std::uint32_t owner = 1000;
    static constexpr std::uint32_t stranger = 1001;

    explicit Bench(daemon::Limits limits = {}, std::string_view topology = model::default_preset)
        : log_{-1, daemon::Level::error, "bench"} {
        daemon::Server::Config config;
        config.fabric = "bench";
        config.topology = preset(topology);
        config.limits = limits;
        config.owner = owner;
        config.random = [this](std::span<std::byte> out) {
            for (std::byte& b : out) b = static_cast<std::byte>(++random_ * 0x9e3779b9U >> 24);
            return Errno{};
        };
        auto made = daemon::Server::create(std::move(config), log_);
        BOOST_REQUIRE(made.ok());
        server_ = std::move(*made);
    }

    [[nodiscard]] daemon::Server& server() { return *server_; }
    [[nodiscard]] daemon::ClientId client(std::uint32_t uid = owner) {
        const auto id = server_->connect({4242, uid, "tester"});
        BOOST_REQUIRE(id.has_value());
        return *id;
    }
    // One that the kernel knows: ourselves.
    [[nodiscard]] daemon::ClientId client_of_this_process() {
        const auto id =
            server_->connect({4242, owner, "tester", Fd{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))}});
        BOOST_REQUIRE(id.has_value());
        return *id;
    }
    void gone(daemon::ClientId id) { server_->disconnect(id, "the test says so"); }

    template <class T>
    Answer<T> ask(daemon::ClientId client, std::uint32_t cmd, T a) {
        a.size = sizeof a;
        std::array<std::byte, sizeof(nvlf_msg) + sizeof(T)> message{};
        const nvlf_msg head{NVLF_MSG_MAGIC, cmd, 77, 0};
        std::memcpy(message.data(), &head, sizeof head);
        std::memcpy(message.data() + sizeof head, &a, sizeof a);
        Answer<T> answer;
        server_->handle(client, message, 0, answer.reply);
        nvlf_msg back{};
        std::memcpy(&back, answer.reply.bytes.data(), sizeof back);
        BOOST_REQUIRE_EQUAL(back.magic, NVLF_MSG_MAGIC);
        BOOST_REQUIRE_EQUAL(back.cmd, cmd);
        BOOST_REQUIRE_EQUAL(back.tag, 77U);
        answer.error = static_cast<int>(back.error);
        if (answer.reply.length == message.size())
            std::memcpy(&answer.a, answer.reply.bytes.data() + sizeof back, sizeof(T));
        if (answer.error == 0) BOOST_REQUIRE_EQUAL(answer.reply.length, message.size());
        else BOOST_REQUIRE_EQUAL(answer.reply.fds.size(), 0U);
        return answer;
    }

    // Short forms of what nearly every test begins with.
    Answer<nvlf_ioc_mem_alloc> alloc(daemon::ClientId client, std::uint64_t bytes = 1, std::uint32_t device = 0) {
        nvlf_ioc_mem_alloc a{};
        a.device = device;
        a.bytes = bytes;
        return ask(client, NVLF_CMD_MEM_ALLOC, a);
    }
    int free(daemon::ClientId client, std::uint32_t handle) {
        return ask(client, NVLF_CMD_MEM_FREE, nvlf_ioc_mem_free{0, handle}).error;
    }
    int release(daemon::ClientId client, std::uint32_t handle) {
        return ask(client, NVLF_CMD_MEM_RELEASE, nvlf_ioc_mem_free{0, handle}).error;
    }
    Answer<nvlf_ioc_mem_export> share(daemon::ClientId client, std::uint32_t handle,
                                      std::uint32_t access = NVLF_ACCESS_READ, std::uint32_t scope = NVLF_SCOPE_FABRIC,
                                      std::uint32_t index = 0) {
        nvlf_ioc_mem_export a{};
        a.handle = handle;
        a.access = access;
        a.scope = scope;
        a.scope_index = index;
        return ask(client, NVLF_CMD_MEM_EXPORT, a);
    }
    Answer<nvlf_ioc_mem_import> import(daemon::ClientId client, const nvlf_ioc_mem_export& from) {
        nvlf_ioc_mem_import a{};
        std::memcpy(a.token, from.token, sizeof a.token);
        return ask(client, NVLF_CMD_MEM_IMPORT, a);
    }
    Answer<nvlf_ioc_mem_open> open_named(daemon::ClientId client, std::string_view name, std::uint32_t flags,
                                         std::uint32_t access = NVLF_ACCESS_READ | NVLF_ACCESS_WRITE,
                                         std::uint64_t bytes = 1) {
        nvlf_ioc_mem_open a{};
        a.flags = flags;
        a.access = access;
        a.bytes = bytes;
        std::copy(name.begin(), name.end(), a.name);
        return ask(client, NVLF_CMD_MEM_OPEN, a);
    }
    Answer<nvlf_ioc_ep_publish> publish(daemon::ClientId client, std::uint64_t service = 0, std::uint32_t device = 0) {
        nvlf_ioc_ep_publish a{};
        a.device = device;
        a.service = service;
        a.region = alloc(client, 1, device).a.handle;
        return ask(client, NVLF_CMD_EP_PUBLISH, a);
    }
    Answer<nvlf_ioc_ep_connect> connect(daemon::ClientId client, const nvlf_addr& own, const nvlf_addr& peer) {
        nvlf_ioc_ep_connect a{};
        a.endpoint = own.endpoint;
        a.addr = peer;
        return ask(client, NVLF_CMD_EP_CONNECT, a);
    }
    Answer<nvlf_ioc_ep_connect> accept(daemon::ClientId client, const nvlf_addr& own) {
        nvlf_ioc_ep_connect a{};
        a.endpoint = own.endpoint;
        return ask(client, NVLF_CMD_EP_ACCEPT, a);
    }
    nvlf_ioc_info info(daemon::ClientId client) {
        nvlf_ioc_info a{};
        a.abi_wanted = NVLF_ABI_VERSION;
        return ask(client, NVLF_CMD_GET_INFO, a).a;
    }
    nvlf_device device(daemon::ClientId client, std::uint32_t index) {
        return ask(client, NVLF_CMD_GET_DEVICE, nvlf_ioc_device{0, index, {}}).a.device;
    }
    int limit(daemon::ClientId client, std::uint32_t which, std::uint64_t value) {
        return ask(client, NVLF_CMD_ADMIN_LIMIT, nvlf_ioc_admin_limit{0, which, value}).error;
    }

private:
    daemon::Log log_;
    std::uint32_t random_ = 0;
    std::unique_ptr<daemon::Server> server_;
};

[[nodiscard]] inline ino_t inode(int fd) {
    struct stat st {};
    BOOST_REQUIRE_EQUAL(::fstat(fd, &st), 0);
    return st.st_ino;
}

[[nodiscard]] inline bool maps(int fd, Mapping::Access access) { return Mapping::map(fd, 4096, access).ok(); }

} // namespace nvlf::test
