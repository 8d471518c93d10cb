// SPDX-License-Identifier: MIT OR GPL-2.0-only
// params.cc - see params.hpp.
//
// All parameters are strings to libfabric: its own parser of numbers knows no suffixes and takes "12abc" for 12.
#include "params.hpp"

#include <charconv>
#include <cstring>
#include <limits>

#include "info.hpp"
#include "provider.hpp"

namespace nvlf::ofi {
namespace {

Params values;

struct Bounds {
    std::size_t least;
    std::size_t most;
};

template <class T>
void take(const char* name, T& value, Bounds bounds, const char* help) noexcept {
    fi_param_define(&provider, name, FI_PARAM_STRING, "%s (default: %zu)", help, static_cast<std::size_t>(value));
    char* text = nullptr;
    if (fi_param_get_str(&provider, name, &text) != 0 || text == nullptr) return;
    std::size_t number = 0;
    if (!parse_size(text, number) || number < bounds.least || number > bounds.most) {
        FI_WARN(&provider, FI_LOG_CORE, "parameter %s is '%s': not a number from %zu to %zu; %zu is used\n", name, text,
                bounds.least, bounds.most, static_cast<std::size_t>(value));
        return;
    }
    value = static_cast<T>(number);
}

void take(const char* name, bool& value, const char* help) noexcept {
    fi_param_define(&provider, name, FI_PARAM_STRING, "%s, 0 or 1 (default: %d)", help, value ? 1 : 0);
    char* text = nullptr;
    if (fi_param_get_str(&provider, name, &text) != 0 || text == nullptr) return;
    if (std::strcmp(text, "0") != 0 && std::strcmp(text, "1") != 0) {
        FI_WARN(&provider, FI_LOG_CORE, "parameter %s is '%s': neither 0 nor 1; %d is used\n", name, text,
                value ? 1 : 0);
        return;
    }
    value = text[0] == '1';
}

} // namespace

bool parse_size(const char* text, std::size_t& ret_size) noexcept {
    int base = 10;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), number, base);
    if (error != std::errc{}) return false;
    int shift = 0;
    switch (*end) {
    case '\0': ret_size = number; return true;
    case 'k':
    case 'K': shift = 10; break;
    case 'm':
    case 'M': shift = 20; break;
    case 'g':
    case 'G': shift = 30; break;
    default: return false;
    }
    if (end[1] != '\0' || number > std::numeric_limits<std::size_t>::max() >> shift) return false;
    ret_size = number << shift;
    return true;
}

void params_init() noexcept {
    take("wait_spin_us", values.wait_spin_us, {0, 1'000'000},
         "Microseconds that a blocking call polls before it sleeps");
    take("yield_after", values.yield_after, {0, 1U << 30},
         "Reads of a completion queue in a row that find nothing before each of them also yields the processor, "
         "0 for never");
    take("cq_limit", values.cq_limit, {1024, std::size_t{1} << 30},
         "Entries to which a completion queue that nobody reads may grow before it is overrun");
    take("unexpected_limit", values.unexpected_limit, {1U << 16, std::size_t{1} << 40},
         "Bytes of messages without a receive that an endpoint keeps; more wait at their senders");
    fi_param_define(
        &provider, "cma", FI_PARAM_STRING,
        "Copy large transfers on ordinary memory straight between processes (process_vm_readv), off or auto: "
        "where the kernel allows it (default: auto)");
    char* text = nullptr;
    if (fi_param_get_str(&provider, "cma", &text) == 0 && text != nullptr) {
        values.cma = std::strcmp(text, "off") != 0;
        if (values.cma && std::strcmp(text, "auto") != 0)
            FI_WARN(&provider, FI_LOG_CORE, "parameter cma is '%s': neither auto nor off; auto is used\n", text);
    }
    take("rma_copy_from", values.rma_copy_from, {0, max_msg_size},
         "Bytes from which a one-sided transfer on ordinary memory is copied by its initiator instead of sent");
    take("share_from", values.share_from, {8192, max_msg_size},
         "Bytes from which a message that its receiver copies from its sender's memory is copied by both of them");
    take(
        "msg_prefix", values.msg_prefix, {0, max_msg_prefix},
        "Bytes in front of their buffers that applications which offer FI_MSG_PREFIX are asked for, to test them with; "
        "a multiple of 8");
    values.msg_prefix &= ~std::size_t{7};
    take("progress_thread", values.progress_thread,
         "Automatic progress, by a thread, for applications that did not ask for it, too");
    take("connect_timeout_ms", values.connect_timeout_ms, {0, 3'600'000},
         "Milliseconds that an operation waits for a peer which was named by service and is not there yet");
}

const Params& params() noexcept { return values; }

} // namespace nvlf::ofi
