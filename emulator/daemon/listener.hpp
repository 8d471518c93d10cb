// SPDX-License-Identifier: MIT OR GPL-2.0-only
// listener.hpp - taking a fabric's name: the listening socket in the socket directory.
//
// A socket file says nothing about whether its fabric lives: a killed nvlfd leaves one behind. So whoever wants the name
// connects and asks: an answer means taken, ECONNREFUSED means left over. Between that look and our bind() another nvlfd
// could do the same; hence all of it happens under flock() on the directory itself, a lock that leaves no file behind and
// ends with its holder. The directory is never removed: somebody could be about to lock it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/socket_dir.hpp"

namespace nvlf::daemon {

class Listener {
public:
    // `group`: who may connect beside the owner. On failure nullopt, and one sentence in `ret_why`.
    [[nodiscard]] static std::optional<Listener> open(SocketDir dir, std::string fabric, std::optional<gid_t> group,
                                                      std::string& ret_why);
    Listener(Listener&& other) noexcept;
    Listener& operator=(Listener&&) = delete;
    ~Listener(); // Removes the socket file, unless it is another's by now.

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }
    [[nodiscard]] std::string path() const { return dir_.path() + '/' + socket_file(fabric_); }

private:
    Listener(SocketDir dir, std::string fabric, Fd socket, dev_t dev, ino_t ino) noexcept
        : dir_{std::move(dir)}, fabric_{std::move(fabric)}, socket_{std::move(socket)}, dev_{dev}, ino_{ino} {}

    SocketDir dir_;
    std::string fabric_;
    Fd socket_;
    dev_t dev_; // Of the socket file: how we know ours.
    ino_t ino_;
};

} // namespace nvlf::daemon
