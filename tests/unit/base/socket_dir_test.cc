// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Where fabrics are found: which directory is meant, which are refused, and what may be long.
#define BOOST_TEST_MODULE socket_dir
#include <boost/test/unit_test.hpp>

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/socket_dir.hpp"
#include "support/resources.hpp"
#include "support/temp_dir.hpp"

namespace {
using namespace nvlf;
using test::TempDir;

// Each case decides about the environment itself.
struct CleanEnvironment {
    CleanEnvironment() {
        for (const char* name : {"NVLF_DIR", "NVLF_FABRIC", "XDG_RUNTIME_DIR", "TMPDIR"}) ::unsetenv(name);
    }
};

Result<SocketDir> open_dir(std::string_view named, SocketDir::Missing missing = SocketDir::Missing::is_error) {
    std::string why;
    auto dir = SocketDir::open(named, missing, why);
    BOOST_TEST(dir.ok() == why.empty());
    return dir;
}

int error_of(std::string_view named) { return open_dir(named).error().value(); }

std::string make_dir(const TempDir& parent, const char* name, mode_t mode) {
    const std::string path = parent / name;
    BOOST_REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
}

std::string own_name() { return "nvlf-" + std::to_string(::geteuid()); }

Fd make_socket() { return Fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)}; }

void bind_and_connect(const SocketDir& dir) {
    const Fd server = make_socket();
    const Fd client = make_socket();
    std::string why;
    BOOST_TEST(dir.bind(server.get(), "fabric", why).value() == 0);
    BOOST_REQUIRE(::listen(server.get(), 1) == 0);
    BOOST_TEST(dir.connect(client.get(), "fabric", why).value() == 0);
    BOOST_TEST(::access((dir.path() + "/fabric.sock").c_str(), F_OK) == 0);
}
} // namespace

BOOST_TEST_GLOBAL_FIXTURE(CleanEnvironment);

BOOST_AUTO_TEST_CASE(the_first_of_argument_environment_runtime_and_temporary_folder_is_taken) {
    const TempDir tmp;
    ::setenv("TMPDIR", tmp.path().c_str(), 1);
    BOOST_REQUIRE(open_dir("", SocketDir::Missing::is_created).ok());
    BOOST_TEST(open_dir("")->path() == tmp / own_name());
    const TempDir runtime;
    ::setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    BOOST_REQUIRE(open_dir("", SocketDir::Missing::is_created).ok());
    BOOST_TEST(open_dir("")->path() == runtime / "nvlf");
    const TempDir named;
    ::setenv("NVLF_DIR", named.path().c_str(), 1);
    BOOST_TEST(open_dir("")->path() == named.path());
    const TempDir argument;
    BOOST_TEST(open_dir(argument.path())->path() == argument.path());
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(a_runtime_folder_that_is_not_there_or_relative_is_passed_over) {
    const TempDir tmp;
    ::setenv("TMPDIR", tmp.path().c_str(), 1);
    for (const char* useless : {"/nonexistent/run", "relative", ""}) {
        ::setenv("XDG_RUNTIME_DIR", useless, 1);
        const auto dir = open_dir("", SocketDir::Missing::is_created);
        BOOST_REQUIRE(dir.ok());
        BOOST_TEST(dir->path() == tmp / own_name());
    }
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(a_created_directory_is_closed_to_all_others) {
    const TempDir parent;
    const mode_t mask = ::umask(0);
    const auto dir = open_dir(parent / "new", SocketDir::Missing::is_created);
    ::umask(mask);
    BOOST_REQUIRE(dir.ok());
    struct stat st {};
    BOOST_REQUIRE(::stat(dir->path().c_str(), &st) == 0);
    BOOST_TEST((st.st_mode & 07777U) == 0700U);
}

BOOST_AUTO_TEST_CASE(what_is_no_directory_is_refused_by_its_own_errno) {
    const TempDir parent;
    BOOST_TEST(error_of(parent / "missing") == ENOENT);
    BOOST_TEST(error_of(parent.write("file", "")) == ENOTDIR);
}

BOOST_AUTO_TEST_CASE(a_link_is_never_followed_not_even_with_a_slash_behind_it) {
    const TempDir parent;
    const std::string target = make_dir(parent, "target", 0700);
    const std::string link = parent / "link";
    BOOST_REQUIRE(::symlink(target.c_str(), link.c_str()) == 0);
    BOOST_TEST(error_of(link) == ELOOP);
    BOOST_TEST(error_of(link + "/") == ELOOP);
    BOOST_TEST(error_of(link + "///") == ELOOP);
    BOOST_TEST(open_dir(link, SocketDir::Missing::is_created).error().value() == ELOOP);
    BOOST_TEST(error_of(target + "/") == 0);
}

BOOST_AUTO_TEST_CASE(a_directory_open_to_everybody_is_refused_even_by_name) {
    const TempDir parent;
    BOOST_TEST(error_of(make_dir(parent, "listed", 0755)) == EACCES);
    BOOST_TEST(error_of(make_dir(parent, "passed", 0701)) == EACCES);
    BOOST_TEST(error_of(make_dir(parent, "sticky", 01777)) == EACCES);
}

BOOST_AUTO_TEST_CASE(a_group_may_share_a_directory_that_is_named) {
    const TempDir parent;
    BOOST_TEST(error_of(make_dir(parent, "r", 0750)) == 0);
    BOOST_TEST(error_of(make_dir(parent, "rw", 0770)) == 0);
}

BOOST_AUTO_TEST_CASE(an_implied_directory_must_not_be_writable_by_its_group) {
    const TempDir tmp;
    ::setenv("TMPDIR", tmp.path().c_str(), 1);
    make_dir(tmp, own_name().c_str(), 0770);
    BOOST_TEST(error_of("") == EACCES);
    BOOST_REQUIRE(::chmod((tmp / own_name()).c_str(), 0750) == 0);
    BOOST_TEST(error_of("") == 0);
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(another_owner_is_fine_by_name_and_refused_by_implication,
                     *boost::unit_test::precondition([](auto) { return ::geteuid() == 0; })) {
    const TempDir tmp;
    ::setenv("TMPDIR", tmp.path().c_str(), 1);
    const std::string path = make_dir(tmp, own_name().c_str(), 0700);
    BOOST_REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
    BOOST_TEST(error_of("") == EACCES);
    BOOST_TEST(error_of(path) == 0);
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(a_refusal_says_what_and_why) {
    const TempDir parent;
    std::string why;
    BOOST_TEST(!SocketDir::open(make_dir(parent, "open", 0755), SocketDir::Missing::is_error, why).ok());
    BOOST_TEST(why.find(parent / "open") != std::string::npos);
    BOOST_TEST(why.find("0755") != std::string::npos);
    BOOST_TEST(why.find("chmod") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sockets_are_reached_through_the_directory_that_was_checked) {
    const TempDir parent;
    const auto dir = open_dir(make_dir(parent, "dir", 0700));
    BOOST_REQUIRE(dir.ok());
    bind_and_connect(*dir);
    // Whatever the path means by now, the descriptor is what counts.
    BOOST_REQUIRE(::rename((parent / "dir").c_str(), (parent / "moved").c_str()) == 0);
    make_dir(parent, "dir", 0700);
    std::string why;
    const Fd client = make_socket();
    BOOST_TEST(dir->connect(client.get(), "fabric", why).value() == ECONNREFUSED); // Its server has closed.
    BOOST_TEST(dir->connect(client.get(), "nobody", why).value() == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_path_longer_than_an_address_is_no_obstacle) {
    const TempDir parent;
    std::string path = parent.path();
    for (int depth = 0; depth < 3; ++depth) {
        path += '/' + std::string(100, 'd');
        BOOST_REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    }
    const auto dir = open_dir(path);
    BOOST_REQUIRE(dir.ok());
    bind_and_connect(*dir);
}

BOOST_AUTO_TEST_CASE(names_of_fabrics_are_file_names_without_surprises) {
    for (const char* good : {"a", "default", "A-b_c.9", ".hidden", "1234567890123456789012345678901"})
        BOOST_TEST(valid_fabric_name(good), good);
    for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", "a\n", "\xc3\xa4", "12345678901234567890123456789012"})
        BOOST_TEST(!valid_fabric_name(bad), bad);
    BOOST_TEST(!valid_fabric_name(std::string_view{"a\0b", 3}));
    BOOST_TEST(socket_file("x") == "x.sock");
}

BOOST_AUTO_TEST_CASE(the_fabric_is_the_argument_else_the_environment_else_default) {
    BOOST_TEST(fabric_name("") == "default");
    ::setenv("NVLF_FABRIC", "env", 1);
    BOOST_TEST(fabric_name("") == "env");
    BOOST_TEST(fabric_name("arg") == "arg");
    CleanEnvironment{};
}

BOOST_AUTO_TEST_CASE(neither_success_nor_failure_leaks_descriptors) {
    const TempDir parent;
    const std::string good = make_dir(parent, "good", 0700);
    const std::string bad = make_dir(parent, "bad", 0777);
    const auto before = test::open_descriptors();
    for (int i = 0; i < 10; ++i) {
        static_cast<void>(error_of(good));
        static_cast<void>(error_of(bad));
        static_cast<void>(error_of(parent / "missing"));
    }
    BOOST_TEST(test::open_descriptors() == before);
}
