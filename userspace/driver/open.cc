// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf_open: connect, starting the daemon if need be, and learn what an open fabric knows. Words for every failure.
#include <poll.h>

#include <chrono>
#include <memory>
#include <string>

#include "driver/connect.hpp"
#include "driver/error_text.hpp"
#include "driver/fabric.hpp"

namespace nvlf {
namespace {

thread_local std::string last_words;

// A fabric may end between our connect() and its accept(); and the socket of a daemon that was killed takes connections
// for some milliseconds more, until the kernel has undone its io_uring. Both look the same from here, and asking again
// tells: then nobody listens, and a new one is started if it may. Who closes on us for a second has another trouble.
constexpr std::chrono::milliseconds give_up_after{1000};
constexpr int pause_ms = 2;

// Who is over the limit of clients may look around, which is of use only to those who came for that.
Result<std::unique_ptr<nvlf_fabric>> checked(Result<std::unique_ptr<nvlf_fabric>> fabric, const OpenWish& wish,
                                             std::string& why) {
    if (!fabric || wish.guest || ((*fabric)->info.caps & NVLF_CAP_GUEST) == 0) return fabric;
    why = "fabric \"" + wish.fabric + "\" serves as many clients as it may (`nvlf status` lists them)";
    return Errno{EMFILE};
}

Result<std::unique_ptr<nvlf_fabric>> open_fabric(const nvlf_open_args* args, std::string& why) {
    const Result<OpenWish> wish = understand(args, why);
    if (!wish) return wish.error();
    const auto end = std::chrono::steady_clock::now() + give_up_after;
    for (;;) {
        Result<std::unique_ptr<Carrier>> carrier = connect_or_start(*wish, why);
        if (!carrier) return carrier.error();
        Result<std::unique_ptr<nvlf_fabric>> fabric = make_fabric(*std::move(carrier), why);
        if (fabric || fabric.error() != Errno{ENODEV} || std::chrono::steady_clock::now() >= end)
            return checked(std::move(fabric), *wish, why);
        ::poll(nullptr, 0, pause_ms);
    }
}

} // namespace

int explain(Errno error, std::string words) noexcept {
    last_words = std::move(words);
    return error.negative();
}

} // namespace nvlf

using namespace nvlf;

int nvlf_open(const nvlf_open_args* args, nvlf_fabric** ret_fabric) noexcept {
    if (ret_fabric == nullptr) return -EINVAL;
    const int result = guarded([&] {
        std::string why;
        Result<std::unique_ptr<nvlf_fabric>> fabric = open_fabric(args, why);
        if (!fabric) return explain(fabric.error(), std::move(why));
        *ret_fabric = (*std::move(fabric)).release();
        return 0;
    });
    return result == -ENOMEM ? explain(Errno{ENOMEM}, {}) : result;
}

const char* nvlf_open_error(void) noexcept { return last_words.c_str(); }
