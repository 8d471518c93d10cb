// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// nvlf_open: connect, starting the daemon if need be, and learn what an open fabric knows. Words for every failure.
#include <memory>
#include <string>

#include "driver/connect.hpp"
#include "driver/error_text.hpp"
#include "driver/fabric.hpp"

namespace nvlf {
namespace {

thread_local std::string last_words;

// An on-demand fabric may end between our connect() and its accept(). Then a new one is started; one that does so time
// and again has another trouble.
constexpr int attempts = 3;

Result<std::unique_ptr<nvlf_fabric>> open_fabric(const nvlf_open_args* args, std::string& why) {
    const Result<OpenWish> wish = understand(args, why);
    if (!wish) return wish.error();
    for (int attempt = 1;; ++attempt) {
        Result<std::unique_ptr<Carrier>> carrier = connect_or_start(*wish, why);
        if (!carrier) return carrier.error();
        Result<std::unique_ptr<nvlf_fabric>> fabric = make_fabric(*std::move(carrier), why);
        if (fabric || fabric.error() != Errno{ENODEV} || !wish->may_start || attempt == attempts) return fabric;
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
