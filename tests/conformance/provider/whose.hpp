// SPDX-License-Identifier: MIT OR GPL-2.0-only
// whose.hpp - whose semantics are tested.
//
// Ours; or, where the environment names another provider in NVLF_CONFORMANCE_PROVIDER, that one's: a case that asks for
// nothing but what libfabric defines holds there as well, and one that does not asserts a quirk of ours. What the other
// does not claim is not asked of it.
#pragma once

#include <rdma/fi_errno.h>

#include <boost/test/unit_test.hpp>
#include <boost/test/unit_test_monitor.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include <sys/types.h>

namespace nvlf::test {

inline const char* provider_name() {
    const char* const other = std::getenv("NVLF_CONFORMANCE_PROVIDER");
    return other != nullptr && *other != '\0' ? other : "nvlf";
}

inline bool foreign() { return std::strcmp(provider_name(), "nvlf") != 0; }

// Ends a case without a verdict.
struct NotClaimed {
    std::string what;
};

// libfabric's ways of saying so.
inline bool not_claimed(ssize_t result) {
    return result == -FI_ENODATA || result == -FI_ENOSYS || result == -FI_EOPNOTSUPP || result == -FI_ENOPROTOOPT;
}

inline void skip_what_is_not_claimed() {
    boost::unit_test::unit_test_monitor.register_exception_translator<NotClaimed>([](const NotClaimed& why) {
        std::cout << "skipped: " << boost::unit_test::framework::current_test_case().p_name.get() << ": "
                  << provider_name() << " does not claim it (" << why.what << ")\n";
    });
}

} // namespace nvlf::test
