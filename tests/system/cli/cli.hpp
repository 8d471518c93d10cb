// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Running nvlf in a test: bounded, in a socket directory of the test's own, and without whatever the person who runs the
// tests has set for himself.
#pragma once

#include "support/child_process.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace nvlf::test {

inline constexpr std::chrono::seconds cli_bound{30};

class Cli {
public:
    explicit Cli(std::string dir) : dir_{std::move(dir)} {}

    // Standard output and error together.
    [[nodiscard]] Completed run(const std::vector<std::string>& arguments,
                                std::vector<std::string> environment = {}) const {
        return nvlf::test::run(command(arguments), cli_bound, options(std::move(environment)));
    }

    // Standard output alone.
    [[nodiscard]] Completed out(const std::vector<std::string>& arguments,
                                std::vector<std::string> environment = {}) const {
        std::vector<std::string> argv{"sh", "-c", R"(exec "$@" 2>/dev/null)", "sh"};
        const auto rest = command(arguments);
        argv.insert(argv.end(), rest.begin(), rest.end());
        return nvlf::test::run(std::move(argv), cli_bound, options(std::move(environment)));
    }

    // Its JSON; the test fails when it is none.
    [[nodiscard]] nlohmann::json json(const std::vector<std::string>& arguments, int exit_code = 0) const {
        const auto done = out(arguments);
        BOOST_TEST_REQUIRE(done.status.exited_with(exit_code), done.status << ": " << done.output);
        return nlohmann::json::parse(done.output);
    }

    [[nodiscard]] static std::vector<std::string> command(const std::vector<std::string>& arguments) {
        std::vector<std::string> argv{program("nvlf")};
        argv.insert(argv.end(), arguments.begin(), arguments.end());
        return argv;
    }

    [[nodiscard]] ChildProcess::Options options(std::vector<std::string> environment) const {
        std::vector<std::string> all{"NVLF_DIR=" + dir_, "NVLF_FABRIC", "NVLF_DEVICE", "NVLF_TOPOLOGY",
                                     "NVLF_NVLFD",       "COLUMNS",     "NO_COLOR",    "FI_PROVIDER_PATH"};
        all.insert(all.end(), environment.begin(), environment.end());
        return {.environment = std::move(all), .directory = {}};
    }

private:
    std::string dir_;
};

[[nodiscard]] inline bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

inline void require_keys(const nlohmann::json& object, const std::vector<std::string>& keys) {
    for (const std::string& key : keys)
        BOOST_TEST(object.contains(key), "the key " << key << " is missing in " << object.dump());
}

} // namespace nvlf::test
