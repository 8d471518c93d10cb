// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Open MPI over the provider, as its users start it: messages by `mtl ofi`, one-sided by `btl ofi`. What is right is what
// the same program prints over Open MPI's own shared memory (`btl vader`). Up to sixteen ranks on two processors, so who
// waits must let those run for whom it waits.
//
// mpi_test.sh starts this where everything is installed, and skips it with the reason where not.
#define BOOST_TEST_MODULE mpi
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "support/child_process.hpp"
#include "support/fabric_daemon.hpp"
#include "support/paths.hpp"

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

using namespace nvlf::test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

constexpr auto bound = 100s;

const std::vector<int> ranks{2, 4, 16};
const Words only_nvlf{"--mca", "opal_common_ofi_provider_include", "nvlf"};

// One-sided operations of MPI by messages, osc pt2pt, wherever nothing else is said: the component that is chosen by
// itself would go around the transport.
const Words by_vader{"--mca", "pml", "ob1", "--mca", "btl", "vader,self", "--mca", "osc", "pt2pt"};
const Words by_mtl{"--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "self", "--mca", "osc", "pt2pt"};
const Words by_btl{"--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "ofi,self", "--mca", "osc", "rdma"};

Words operator+(Words one, const Words& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
}

struct Fixture {
    FabricDaemon daemon{};

    Completed mpirun(int count, const Words& transport, const Words& command) const {
        Words environment{"NVLF_TOPOLOGY",
                          "NVLF_DEVICE",
                          "FI_PROVIDER",
                          "NVLF_ON_DEMAND=0",
                          "NVLF_DIR=" + daemon.dir(),
                          "NVLF_FABRIC=" + daemon.fabric(),
                          "OMPI_ALLOW_RUN_AS_ROOT=1",
                          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
        return run(Words{"mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(count), "--mca",
                         "mpi_yield_when_idle", "1"} +
                       transport + command,
                   bound, {.environment = environment + stock_program_environment(), .directory = {}});
    }

    Words python(const char* program) const {
        const char* interpreter = std::getenv("NVLF_TEST_PYTHON"); // The one that has mpi4py: mpi_test.sh looked.
        return {interpreter != nullptr ? interpreter : "python3", source_dir() + "/tests/system/mpi/" + program};
    }
    // How many domains have been opened on the fabric: nvlfd logs each.
    std::size_t domains() {
        const std::string log = daemon.process().output();
        std::size_t count = 0;
        for (std::size_t at = 0; (at = log.find(" attached to ", at)) != std::string::npos; ++at) ++count;
        return count;
    }
};

// "part digest" lines, without whatever else mpirun says.
std::string digests(const Completed& completed) {
    BOOST_TEST_REQUIRE(completed.status.exited_with(0), completed.status << '\n' << completed.output);
    std::string found;
    std::istringstream lines{completed.output};
    for (std::string line; std::getline(lines, line);) {
        const auto space = line.find(' ');
        if (space != std::string::npos && line.size() == space + 1 + 24 &&
            line.find_first_not_of("0123456789abcdef", space + 1) == std::string::npos)
            found += line + '\n';
    }
    BOOST_TEST_REQUIRE(!found.empty(), completed.output);
    return found;
}

} // namespace

BOOST_DATA_TEST_CASE_F(Fixture, messages_collectives_and_windows_are_those_of_vader,
                       boost::unit_test::data::make(ranks), count) {
    const auto right = digests(mpirun(count, by_vader, python("transfers.py")));
    BOOST_TEST(domains() == 0U);
    BOOST_TEST(digests(mpirun(count, by_mtl + only_nvlf, python("transfers.py"))) == right);
    BOOST_TEST(domains() == static_cast<std::size_t>(count)); // It was this fabric indeed, with each rank.
}

BOOST_DATA_TEST_CASE_F(Fixture, windows_by_remote_memory_access_are_those_of_vader, boost::unit_test::data::make(ranks),
                       count) {
    const auto right = digests(mpirun(count, by_vader, python("transfers.py") + Words{"window"}));
    BOOST_TEST(digests(mpirun(count, by_btl + only_nvlf, python("transfers.py") + Words{"window"})) == right);
    BOOST_TEST(domains() == static_cast<std::size_t>(2 * count)); // One for messages, one for what is one-sided.
}

BOOST_DATA_TEST_CASE_F(Fixture, threads_that_all_send_and_receive_do_what_they_do_over_vader,
                       boost::unit_test::data::make(ranks), count) {
    const auto right = digests(mpirun(count, by_vader, python("threads.py")));
    BOOST_TEST(digests(mpirun(count, by_mtl + only_nvlf, python("threads.py"))) == right);
}

BOOST_FIXTURE_TEST_CASE(the_other_name_of_the_parameter_chooses_the_provider_too, Fixture) {
    const Words other_name{"--mca", "mtl_ofi_provider_include", "nvlf"};
    BOOST_TEST(digests(mpirun(2, by_mtl + other_name, python("transfers.py") + Words{"ring"})).rfind("ring ", 0) == 0U);
    BOOST_TEST(domains() == 2U);
}

BOOST_FIXTURE_TEST_CASE(netpipe_finds_its_data_whole, Fixture) {
    const std::string log = daemon.dir() + "/netpipe"; // It insists on writing one.
    const auto completed = mpirun(2, by_mtl + only_nvlf,
                                  {"NPopenmpi", "-i", "-u", "300000", "-o", log}); // -i: checks, and measures nothing.
    BOOST_TEST_REQUIRE(completed.status.exited_with(0), completed.status << '\n' << completed.output);
    std::size_t passed = 0;
    for (std::size_t at = 0; (at = completed.output.find("Integrity check passed", at)) != std::string::npos; ++at)
        ++passed;
    BOOST_TEST(passed >= 20U, completed.output);
    BOOST_TEST(completed.output.find("failed") == std::string::npos, completed.output);
}
