// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The table of commands, and what holds for all of them. See server.hpp.
#include "daemon/server.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "base/commands.hpp"

namespace nvlf::daemon {
namespace {

// Who may call a command. Guests (client.hpp) may look, and the owner may administer from whatever connection he gets.
enum class For : std::uint8_t { clients, guests, owner };

// A row: the function, who may call it, and which __u32 fields must be zero (0 ends the list).
struct Row {
    std::uint32_t cmd;
    Errno (*invoke)(Server& server, Client& client, std::span<std::byte> arg, Descriptors& out);
    For who;
    std::array<std::uint16_t, 2> zero_at;
};

// The struct is copied out of the message and back, so that neither alignment nor a change of mind of the sender
// matters. "Results are written only on success, except GET_INFO's abi."
template <class T, Errno (Server::*command)(Client&, T&, Descriptors&)>
Errno invoke(Server& server, Client& client, std::span<std::byte> arg, Descriptors& out) {
    T a;
    std::memcpy(&a, arg.data(), sizeof a);
    const Errno error = (server.*command)(client, a, out);
    if (!error.failed() || std::is_same_v<T, nvlf_ioc_info>) std::memcpy(arg.data(), &a, sizeof a);
    return error;
}

template <class T, Errno (Server::*command)(Client&, T&, Descriptors&)>
constexpr Row row(std::uint32_t cmd, std::array<std::uint16_t, 2> zero_at = {}, For who = For::clients) {
    return {cmd, &invoke<T, command>, who, zero_at};
}

#define NVLF_AT(type, field) static_cast<std::uint16_t>(offsetof(type, field)) // offsetof is a macro: so must this be.
constexpr std::array rows{
    row<nvlf_ioc_info, &Server::get_info>(NVLF_CMD_GET_INFO, {}, For::guests),
    row<nvlf_ioc_device, &Server::get_device>(NVLF_CMD_GET_DEVICE, {}, For::guests),
    row<nvlf_ioc_switch, &Server::get_switch>(NVLF_CMD_GET_SWITCH, {}, For::guests),
    row<nvlf_ioc_link, &Server::get_link>(NVLF_CMD_GET_LINK, {}, For::guests),
    row<nvlf_ioc_path, &Server::get_path>(NVLF_CMD_GET_PATH, {}, For::guests),
    row<nvlf_ioc_state, &Server::get_state>(NVLF_CMD_GET_STATE, {NVLF_AT(nvlf_ioc_state, reserved)}, For::guests),
    row<nvlf_ioc_client, &Server::get_client>(NVLF_CMD_GET_CLIENT, {}, For::owner),
    row<nvlf_ioc_attach, &Server::attach>(NVLF_CMD_ATTACH),
    row<nvlf_ioc_mem_alloc, &Server::mem_alloc>(
        NVLF_CMD_MEM_ALLOC, {NVLF_AT(nvlf_ioc_mem_alloc, flags), NVLF_AT(nvlf_ioc_mem_alloc, reserved)}),
    row<nvlf_ioc_mem_free, &Server::mem_free>(NVLF_CMD_MEM_FREE),
    row<nvlf_ioc_mem_export, &Server::mem_export>(NVLF_CMD_MEM_EXPORT, {NVLF_AT(nvlf_ioc_mem_export, reserved)}),
    row<nvlf_ioc_mem_import, &Server::mem_import>(NVLF_CMD_MEM_IMPORT, {NVLF_AT(nvlf_ioc_mem_import, reserved)}),
    row<nvlf_ioc_mem_free, &Server::mem_release>(NVLF_CMD_MEM_RELEASE),
    row<nvlf_ioc_mem_open, &Server::mem_open>(NVLF_CMD_MEM_OPEN, {NVLF_AT(nvlf_ioc_mem_open, reserved)}),
    row<nvlf_ioc_ep_publish, &Server::ep_publish>(NVLF_CMD_EP_PUBLISH, {NVLF_AT(nvlf_ioc_ep_publish, flags)}),
    row<nvlf_ioc_ep_withdraw, &Server::ep_withdraw>(NVLF_CMD_EP_WITHDRAW),
    row<nvlf_ioc_ep_lookup, &Server::ep_lookup>(NVLF_CMD_EP_LOOKUP, {NVLF_AT(nvlf_ioc_ep_lookup, reserved)}),
    row<nvlf_ioc_ep_connect, &Server::ep_connect>(NVLF_CMD_EP_CONNECT),
    row<nvlf_ioc_ep_connect, &Server::ep_accept>(NVLF_CMD_EP_ACCEPT),
    row<nvlf_ioc_ep_process, &Server::ep_process>(NVLF_CMD_EP_PROCESS, {NVLF_AT(nvlf_ioc_ep_process, reserved)}),
    row<nvlf_ioc_events, &Server::events>(NVLF_CMD_EVENTS, {NVLF_AT(nvlf_ioc_events, reserved)}),
    row<nvlf_ioc_admin_state, &Server::admin_state>(NVLF_CMD_ADMIN_STATE, {NVLF_AT(nvlf_ioc_admin_state, reserved)},
                                                    For::owner),
    row<nvlf_ioc_admin_clock, &Server::admin_clock>(NVLF_CMD_ADMIN_CLOCK, {}, For::owner),
    row<nvlf_ioc_admin_limit, &Server::admin_limit>(NVLF_CMD_ADMIN_LIMIT, {}, For::owner),
    row<nvlf_ioc_admin_topology, &Server::admin_topology>(NVLF_CMD_ADMIN_TOPOLOGY, {}, For::owner),
    row<nvlf_ioc_admin_down, &Server::admin_down>(NVLF_CMD_ADMIN_DOWN, {}, For::owner),
};
#undef NVLF_AT

constexpr bool same_commands() {
    if (rows.size() != commands.size()) return false;
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].cmd != commands[i].cmd) return false;
    return true;
}
static_assert(same_commands(), "a command of the contract has no row here, or stands elsewhere");

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + offset, sizeof word);
    return word;
}

// The rules on `size`, on reserved fields and on descriptors coming in, for a struct of which the first word is there.
Errno check_struct(const Command& command, const Row& row, std::span<const std::byte> arg, std::size_t fds) {
    if (arg.size() < command.size) return Errno{EINVAL};
    const auto tail = arg.subspan(command.size);
    if (std::any_of(tail.begin(), tail.end(), [](std::byte b) { return b != std::byte{0}; })) return Errno{E2BIG};
    for (const std::uint16_t at : row.zero_at)
        if (at != 0 && word_at(arg, at) != 0) return Errno{EINVAL};
    if (!command.fds_from_client) return fds == 0 ? Errno{} : Errno{EPROTO};
    for (const std::uint16_t at : command.fd_at)
        if (at != 0 && word_at(arg, at) != NVLF_NO_FD && word_at(arg, at) >= fds) return Errno{EPROTO};
    return Errno{};
}

} // namespace

Result<std::unique_ptr<Server>> Server::create(Config config, Log& log) {
    Uuid uuid{};
    if (const Errno e = config.random(std::as_writable_bytes(std::span{uuid})); e.failed()) return e;
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40); // Version 4, variant 1: a random UUID says so.
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    auto state = StateRegion::create(config.topology, uuid, config.placement);
    if (!state) return state.error();
    // Read-only imports and regions depend on it: better no fabric than one whose every connect fails.
    if (!open_read_only(state->state_fd())) return Errno{ENOSYS};
    std::unique_ptr<Server> server{new Server{std::move(config), std::move(*state), log}};
    server->uuid_ = uuid;
    return server;
}

namespace {

std::uint64_t arena_bytes(const model::Topology& topology) {
    std::uint64_t sum = 0; // At most 4096 devices of at most 2^64 bytes: stop before it wraps.
    for (const model::Device& device : topology.devices) {
        sum += std::min(topology.type_of(device).hbm.value, arena_max_bytes);
        if (sum >= arena_max_bytes) return arena_max_bytes;
    }
    return sum / NVLF_PAGE_SIZE * NVLF_PAGE_SIZE;
}

} // namespace

Server::Server(Config config, StateRegion state, Log& log)
    : config_{std::move(config)},
      state_{std::move(state)},
      log_{log},
      routes_{config_.topology, state_},
      memory_{state_, config_.placement, arena_bytes(config_.topology)},
      endpoints_{state_, config_.limits.left_offers} {
    memory_.on_gone = [this](const Memory& memory) {
        if (Client* owner = find_client(memory.owner); owner != nullptr) owner->bytes -= memory.bytes;
    };
    endpoints_.on_peer_gone = [this](const Endpoint& survivor, const Endpoint& gone) {
        Client* owner = find_client(survivor.owner);
        if (owner == nullptr || !owner->events) return;
        nvlf_event event{};
        event.type = NVLF_EVENT_ENDPOINT;
        event.index = survivor.id;
        event.addr = address_of(gone);
        owner->events->send(event);
    };
    endpoints_.on_channel_gone = [this](const Channel& channel) {
        Client* begun_by = find_client(channel.begun_by);
        if (begun_by == nullptr) return;
        --begun_by->channels;
        if (channel.fd) --begun_by->descriptors;
    };
    endpoints_.on_offer_taken = [this](const Channel& channel) {
        if (Client* begun_by = find_client(channel.begun_by); begun_by != nullptr) --begun_by->descriptors;
    };
}

Server::~Server() { say_goodbye(); }

Client* Server::find_client(ClientId id) const {
    const auto it = clients_.find(id);
    return it != clients_.end() ? it->second.get() : nullptr;
}

std::string Server::name_of(ClientId id) const {
    const Client* client = find_client(id);
    return client != nullptr ? client->name() : "client " + std::to_string(id);
}

bool Server::owns_fabric(const Client& client) const noexcept {
    return client.identity.uid == config_.owner || client.identity.uid == 0;
}

Errno Server::check_device(std::uint32_t device) const noexcept {
    if (device >= state_.devices().size()) return Errno{ENODEV};
    return state_.devices()[device].state == NVLF_STATE_DOWN ? Errno{EHOSTDOWN} : Errno{};
}

Errno Server::check_descriptors(const Client& client, std::uint32_t more) const noexcept {
    const std::uint32_t limit = config_.limits.descriptors_per_file;
    return client.descriptors > limit || limit - client.descriptors < more ? Errno{EMFILE} : Errno{};
}

std::optional<ClientId> Server::connect(Identity identity) {
    const bool full = client_count_ >= config_.limits.clients;
    const auto guests = clients_.size() - client_count_;
    if (full && guests >= config_.limits.guests) return std::nullopt;
    const ClientId id = ++last_client_;
    auto client = std::make_unique<Client>(id, std::move(identity));
    if (full) {
        client->guest = true;
        log_.warning(client->name() + " is a guest: the limit of " + std::to_string(config_.limits.clients) +
                     " clients is reached");
    } else {
        ++client_count_;
        log_.info(client->name() + " connected");
    }
    clients_.emplace(id, std::move(client));
    return id;
}

void Server::disconnect(ClientId id, std::string_view why) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) return;
    Client& client = *it->second;
    // Endpoints first: their peers must see them dead before anything else moves, and they hold their regions.
    const auto endpoints = client.endpoints;
    for (const std::uint32_t endpoint : endpoints) withdraw(client, *endpoints_.find(endpoint));
    const auto imports = client.imports;
    for (const auto& [handle, memory] : imports) memory_.drop_importer(*memory, id, handle);
    const auto allocations = client.allocations;
    for (const auto& [handle, memory] : allocations) free_memory(client, handle, *memory);
    if (client.device != NVLF_DEVICE_ANY) attach_to(client, NVLF_DEVICE_ANY);
    if (!client.guest) {
        --client_count_;
        log_.info(client.name() + " gone: " + std::string{why} + "; freed " + std::to_string(endpoints.size()) +
                  " endpoints, " + std::to_string(allocations.size()) + " allocations, " +
                  std::to_string(imports.size()) + " imports");
    }
    clients_.erase(it);
}

void Server::announce(const nvlf_event& event) noexcept {
    for (const auto& [id, client] : clients_)
        if (client->events) client->events->send(event);
}

void Server::say_goodbye() noexcept {
    nvlf_state& header = state_.header();
    if (header.serving == 0) return;
    live_store<decltype(header.serving)>(header.serving, 0);
    nvlf_event event{};
    event.type = NVLF_EVENT_FABRIC;
    event.state = NVLF_STATE_DOWN;
    announce(event);
}

void Server::handle(ClientId id, std::span<const std::byte> message, std::size_t fds, Reply& reply) {
    reply.fds.clear();
    nvlf_msg head{};
    // An empty span has no address, which memcpy may not be given.
    if (!message.empty()) std::memcpy(&head, message.data(), std::min(message.size(), sizeof head));
    const auto answer = [&reply, &head](Errno error, std::size_t length) {
        head.magic = NVLF_MSG_MAGIC;
        head.error = static_cast<std::uint32_t>(error.value());
        std::memcpy(reply.bytes.data(), &head, sizeof head);
        reply.length = sizeof head + length;
    };
    Client* client = find_client(id);
    assert(client != nullptr);

    if (message.size() < sizeof head || message.size() > NVLF_MSG_BYTES || head.magic != NVLF_MSG_MAGIC ||
        head.error != 0)
        return answer(Errno{EPROTO}, 0);
    const Command* command = find_command(head.cmd);
    if (command == nullptr) return answer(Errno{ENOTTY}, 0);
    const Row& row = rows[static_cast<std::size_t>(command - commands.data())];

    const auto in = message.subspan(sizeof head);
    if (in.size() < sizeof(std::uint32_t) || word_at(in, 0) != in.size()) return answer(Errno{EPROTO}, 0);
    if (const Errno e = check_struct(*command, row, in, fds); e.failed()) return answer(e, 0);
    if (row.who == For::owner && !owns_fabric(*client)) return answer(Errno{EPERM}, 0);
    if (row.who == For::clients && client->guest) return answer(Errno{EMFILE}, 0);

    // The reply's struct starts as the request's: what is not written comes back as it was, at the caller's size.
    const std::span<std::byte> arg{reply.bytes.data() + sizeof head, in.size()};
    std::copy(in.begin(), in.end(), arg.begin());
    Errno error;
    try {
        error = row.invoke(*this, *client, arg, reply.fds);
    } catch (const std::bad_alloc&) {
        error = Errno{ENOMEM};
    }
    if (error.failed()) reply.fds.clear();
    answer(error, in.size());
}

} // namespace nvlf::daemon
