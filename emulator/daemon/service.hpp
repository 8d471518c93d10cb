// SPDX-License-Identifier: MIT OR GPL-2.0-only
// service.hpp - the rim: sockets, signals and the clock around the server.
//
// Nothing in here waits but the loop. Every receive and send carries MSG_DONTWAIT. A client that does not read its
// replies is kept until `max_backlog` of them wait for it, and is then dropped; how much it can make us do at a turn is
// bounded, so that it cannot starve the others. At the limit of descriptors a spare one lets us accept and close, so that
// a connection that we cannot take does not spin the loop for ever.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/message.hpp"
#include "daemon/listener.hpp"
#include "daemon/loop.hpp"
#include "daemon/server.hpp"

namespace nvlf::daemon {

class Service {
public:
    struct Config {
        std::optional<std::uint32_t> idle_seconds; // Ends so long after the last client; nullopt: never.
    };

    // `signals` is a signalfd of what ends the daemon. All of them outlive it.
    Service(Server& server, Loop& loop, const Listener& listener, int signals, Config config);
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // Serves until told to end. An errno only when the loop itself fails.
    [[nodiscard]] Errno run();

private:
    using Clock = std::chrono::steady_clock;

    struct Connection {
        Fd socket;
        std::deque<Reply> backlog;
    };

    void dispatch(const Ready& ready);
    void accept_some();
    // False when there is no more to accept now.
    [[nodiscard]] bool accept_one();
    void shed_one();
    void add_connection(Fd socket);
    void receive_some(ClientId id, Connection& connection);
    [[nodiscard]] bool receive_one(ClientId id, Connection& connection);
    [[nodiscard]] bool send_or_keep(ClientId id, Connection& connection, Reply reply);
    [[nodiscard]] bool send_backlog(ClientId id, Connection& connection);
    void drop(ClientId id, std::string_view why);
    void read_signal();
    [[nodiscard]] std::optional<std::uint32_t> until_idle_end();

    Server& server_;
    Loop& loop_;
    const Listener& listener_;
    int signals_;
    Config config_;
    Fd spare_;
    std::unordered_map<ClientId, Connection> connections_;
    Message message_; // Reused: 1 KiB that need not be cleared for each.
    Clock::time_point idle_since_;
    bool had_client_ = false;
    bool ending_ = false;
};

} // namespace nvlf::daemon
