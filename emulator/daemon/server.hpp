// SPDX-License-Identifier: MIT OR GPL-2.0-only
// server.hpp - the fabric as its clients see it: the contract of nvlf/ioctl.h, without sockets and without a loop.
//
// A message goes in, a reply comes out, and between the two nothing waits: so the whole server can be driven by a fuzzer,
// or by a test in one process. Who the clients are, when they come and when they are gone is told to it by the rim
// (service.hpp). It makes memory objects, eventfds and socket pairs itself; those are what it hands out.
//
// The dispatch is a table (server.cc). What holds for every command is checked there, once, before the command's own
// function runs: framing, size rules, reserved fields, who may. commands_*.cc hold those functions, one group of commands
// a file; each changes the fabric only after everything that can fail has succeeded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "daemon/client.hpp"
#include "daemon/endpoint.hpp"
#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "daemon/memory.hpp"
#include "daemon/placement.hpp"
#include "daemon/routes.hpp"
#include "daemon/state_region.hpp"
#include "model/topology.hpp"
#include "nvlf/ioctl.h"

namespace nvlf::daemon {

// Descriptors on their way to a client, owned. What add() returns is what the descriptor field then holds on the wire.
class Descriptors {
public:
    std::uint32_t add(Fd fd) noexcept {
        fds_[count_] = std::move(fd);
        return count_++;
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    [[nodiscard]] int get(std::size_t i) const noexcept { return fds_[i].get(); }
    // Not sent after all.
    void clear() noexcept {
        for (Fd& fd : fds_) fd.reset();
        count_ = 0;
    }

private:
    std::array<Fd, NVLF_MSG_FDS> fds_;
    std::uint32_t count_ = 0;
};

struct Reply {
    std::array<std::byte, NVLF_MSG_BYTES> bytes;
    std::size_t length = 0;
    Descriptors fds;

    [[nodiscard]] std::span<const std::byte> body() const noexcept { return {bytes.data(), length}; }
};

class Server {
public:
    struct Config {
        std::string fabric = "default";
        model::Topology topology;
        Limits limits;
        Placement placement;
        Random random;           // getrandom in nvlfd.
        std::uint64_t epoch = 1; // Differs each time that the fabric is brought up.
        std::uint32_t owner = 0; // uid that may ADMIN_*, beside root.
        std::uint32_t pid = 0;   // Our own, for GET_INFO.
        bool on_demand = false;
    };

    // ENOMEM, EMFILE: the regions could not be made. ENOSYS: without /proc no read-only descriptor can be made.
    [[nodiscard]] static Result<std::unique_ptr<Server>> create(Config config, Log& log);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // A new open file. Over the limit it is taken in all the same, as one whose every request is answered EMFILE, so
    // that it can read why; nullopt when there are too many even of those.
    [[nodiscard]] std::optional<ClientId> connect(Identity identity);
    // It closed, or must go: `why` is for the log. Everything that it owned ends.
    void disconnect(ClientId id, std::string_view why);

    // `message` as it came, `fds` descriptors that came with it (they stay the caller's). Fails in no other way than by
    // a reply that says so.
    void handle(ClientId id, std::span<const std::byte> message, std::size_t fds, Reply& reply);

    [[nodiscard]] std::uint32_t client_count() const noexcept { return client_count_; } // Guests not counted.
    [[nodiscard]] bool going_down() const noexcept { return going_down_; }              // ADMIN_DOWN was granted.
    [[nodiscard]] Log& log() noexcept { return log_; }
    [[nodiscard]] std::string name_of(ClientId id) const;

    // Says goodbye: `serving` becomes 0 and event streams are told.
    void say_goodbye() noexcept;

    // The commands, for the table in server.cc. Input fields are as the client sent them.
    Errno get_info(Client& client, nvlf_ioc_info& a, Descriptors& out);
    Errno get_device(Client& client, nvlf_ioc_device& a, Descriptors& out);
    Errno get_switch(Client& client, nvlf_ioc_switch& a, Descriptors& out);
    Errno get_link(Client& client, nvlf_ioc_link& a, Descriptors& out);
    Errno get_path(Client& client, nvlf_ioc_path& a, Descriptors& out);
    Errno get_state(Client& client, nvlf_ioc_state& a, Descriptors& out);
    Errno get_client(Client& client, nvlf_ioc_client& a, Descriptors& out);
    Errno attach(Client& client, nvlf_ioc_attach& a, Descriptors& out);
    Errno mem_alloc(Client& client, nvlf_ioc_mem_alloc& a, Descriptors& out);
    Errno mem_free(Client& client, nvlf_ioc_mem_free& a, Descriptors& out);
    Errno mem_export(Client& client, nvlf_ioc_mem_export& a, Descriptors& out);
    Errno mem_import(Client& client, nvlf_ioc_mem_import& a, Descriptors& out);
    Errno mem_release(Client& client, nvlf_ioc_mem_free& a, Descriptors& out);
    Errno mem_open(Client& client, nvlf_ioc_mem_open& a, Descriptors& out);
    Errno ep_publish(Client& client, nvlf_ioc_ep_publish& a, Descriptors& out);
    Errno ep_withdraw(Client& client, nvlf_ioc_ep_withdraw& a, Descriptors& out);
    Errno ep_lookup(Client& client, nvlf_ioc_ep_lookup& a, Descriptors& out);
    Errno ep_connect(Client& client, nvlf_ioc_ep_connect& a, Descriptors& out);
    Errno ep_accept(Client& client, nvlf_ioc_ep_connect& a, Descriptors& out);
    Errno ep_process(Client& client, nvlf_ioc_ep_process& a, Descriptors& out);
    Errno events(Client& client, nvlf_ioc_events& a, Descriptors& out);
    Errno admin_state(Client& client, nvlf_ioc_admin_state& a, Descriptors& out);
    Errno admin_clock(Client& client, nvlf_ioc_admin_clock& a, Descriptors& out);
    Errno admin_limit(Client& client, nvlf_ioc_admin_limit& a, Descriptors& out);
    Errno admin_topology(Client& client, nvlf_ioc_admin_topology& a, Descriptors& out);
    Errno admin_down(Client& client, nvlf_ioc_admin_down& a, Descriptors& out);

private:
    Server(Config config, StateRegion state, Log& log);

    [[nodiscard]] Client* find_client(ClientId id) const;
    [[nodiscard]] bool owns_fabric(const Client& client) const noexcept;
    // EHOSTDOWN, ENODEV.
    [[nodiscard]] Errno check_device(std::uint32_t device) const noexcept;
    [[nodiscard]] Errno check_descriptors(const Client& client, std::uint32_t more) const noexcept;
    void attach_to(Client& client, std::uint32_t device);
    void free_memory(Client& owner, std::uint32_t handle, Memory& memory);
    [[nodiscard]] Result<std::uint64_t> charge(const Client& client, std::uint64_t wanted) const;
    [[nodiscard]] Result<Memory*> make_named_memory(const Client& client, const nvlf_ioc_mem_open& a);

    [[nodiscard]] nvlf_addr address_of(const Endpoint& endpoint) const noexcept;
    [[nodiscard]] Result<Endpoint*> resolve(const nvlf_addr& addr);
    [[nodiscard]] Endpoint* own_endpoint(const Client& client, std::uint32_t id);
    [[nodiscard]] Errno hand_out_channel(nvlf_ioc_ep_connect& a, Descriptors& out, std::uint32_t side, Fd channel,
                                         const Endpoint& peer) const;
    [[nodiscard]] Errno take_offer(Endpoint& own, Endpoint& peer, nvlf_ioc_ep_connect& a, Descriptors& out);
    [[nodiscard]] Errno begin_channel(Client& client, Endpoint& own, Endpoint& peer, nvlf_ioc_ep_connect& a,
                                      Descriptors& out);
    void leave_offers(const Endpoint& endpoint);
    void withdraw(Client& owner, Endpoint& endpoint);

    void announce(const nvlf_event& event) noexcept;

    Config config_;
    StateRegion state_;
    Log& log_;
    Uuid uuid_{};
    Routes routes_;
    MemoryTable memory_;
    EndpointTable endpoints_;
    std::map<ClientId, std::unique_ptr<Client>> clients_; // In the order of arrival.
    ClientId last_client_ = 0;
    std::uint32_t client_count_ = 0;
    bool going_down_ = false;
};

} // namespace nvlf::daemon
