// SPDX-License-Identifier: MIT OR GPL-2.0-only
// connect.hpp - from the arguments of nvlf_open to a carrier that answers.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "driver/carrier.hpp"
#include "nvlf/nvlf.h"

namespace nvlf {

// nvlf_open_args with the environment's and the built-in defaults filled in.
struct OpenWish {
    std::string fabric;
    std::string dir;      // "": SocketDir decides.
    std::string topology; // "": the daemon's default.
    bool may_start = false;
    bool guest = false; // What a guest may do is enough.
};

// EINVAL, E2BIG, ENAMETOOLONG for arguments that no fabric can satisfy.
[[nodiscard]] Result<OpenWish> understand(const nvlf_open_args* args, std::string& ret_why);

// A connection to the running fabric. ENOENT: none runs.
[[nodiscard]] Result<std::unique_ptr<Carrier>> connect_running(const OpenWish& wish, std::string& ret_why);

// The same, and starts the daemon if it may and must.
[[nodiscard]] Result<std::unique_ptr<Carrier>> connect_or_start(const OpenWish& wish, std::string& ret_why);

} // namespace nvlf
