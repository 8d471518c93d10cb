// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "base/socket_dir.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "nvlf/device.h"

namespace nvlf {
namespace {

// secure_getenv: a set-uid program must not be led by its caller's environment to a fabric of the caller's making.
std::string_view variable(const char* name) {
    const char* value = ::secure_getenv(name);
    return value != nullptr ? value : "";
}

// A login by su or a container often inherits the variable of another user, or of a host that is not here.
bool own_directory(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::geteuid();
}

struct Choice {
    std::string path;
    bool named;
};

Choice choose(std::string_view named) {
    if (!named.empty()) return {std::string{named}, true};
    if (const auto dir = variable("NVLF_DIR"); !dir.empty()) return {std::string{dir}, true};
    const std::string runtime{variable("XDG_RUNTIME_DIR")};
    if (!runtime.empty() && runtime.front() == '/' && own_directory(runtime)) return {runtime + "/nvlf", false};
    const auto tmp = variable("TMPDIR");
    const std::string folder{!tmp.empty() && tmp.front() == '/' ? tmp : "/tmp"};
    return {folder + "/nvlf-" + std::to_string(::geteuid()), false};
}

// With a slash at the end O_NOFOLLOW would look behind the link.
void strip_slashes(std::string& path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
}

std::string octal(mode_t mode) {
    char text[5] = "0000";
    for (int i = 3; i >= 0; --i, mode >>= 3) text[i] = static_cast<char>('0' + (mode & 7));
    return text;
}

std::string owner(uid_t uid) { return uid == 0 ? "root" : "uid " + std::to_string(uid); }

// The rules of the header. Empty when they hold.
std::string broken_rule(const struct stat& st, bool named) {
    const mode_t mode = st.st_mode & 07777;
    if (!named && st.st_uid != ::geteuid())
        return "belongs to " + owner(st.st_uid) + ", not to us (" + owner(::geteuid()) +
               "); name it by NVLF_DIR if that is what you want";
    if ((mode & S_IRWXO) != 0)
        return "has mode " + octal(mode) + ", which lets everybody in; chmod 0700 (or 0750 for a group) it";
    if (!named && (mode & S_IWGRP) != 0)
        return "has mode " + octal(mode) + ", which lets its group put sockets into it; chmod 0700 it";
    return {};
}

std::string explain_open(Errno error) {
    switch (error.value()) {
    case ENOENT: return "does not exist";
    case ENOTDIR: return "is not a directory";
    case ELOOP: return "is a symbolic link, which is never followed here";
    case EACCES: return "cannot be entered by " + owner(::geteuid());
    default: return std::string{"cannot be opened: "} + ::strerrordesc_np(error.value());
    }
}

// O_NOFOLLOW | O_DIRECTORY answers ENOTDIR for a link as well; the message should tell the two apart.
Errno tell_link(Errno error, const std::string& path) {
    struct stat st {};
    const bool link = error == Errno{ENOTDIR} && ::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
    return link ? Errno{ELOOP} : error;
}

Errno fill(sockaddr_un& address, socklen_t& ret_length, const std::string& path) {
    if (path.size() >= sizeof address.sun_path) return Errno{ENAMETOOLONG};
    address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ret_length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return Errno{};
}

Errno make_address(const SocketDir& dir, std::string_view fabric, sockaddr_un& address, socklen_t& ret_length,
                   std::string& ret_why) {
    const std::string by_descriptor = "/proc/self/fd/" + std::to_string(dir.fd());
    if (::access(by_descriptor.c_str(), F_OK) == 0)
        return fill(address, ret_length, by_descriptor + '/' + socket_file(fabric));
    // No /proc: a bare chroot. The path then, as long as it fits.
    const std::string path = dir.path() + '/' + socket_file(fabric);
    const Errno error = fill(address, ret_length, path);
    if (error.failed())
        ret_why = "the path " + path + " is longer than the " + std::to_string(sizeof address.sun_path - 1) +
                  " bytes of a socket's address; mount /proc or choose a shorter NVLF_DIR";
    return error;
}

} // namespace

Result<SocketDir> SocketDir::open(std::string_view named, Missing missing, std::string& ret_why) {
    Choice choice = choose(named);
    strip_slashes(choice.path);
    const std::string& path = choice.path;
    const std::string subject = "the socket directory " + path + ' ';
    if (missing == Missing::is_created && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        const Errno error = last_errno();
        ret_why = subject + "cannot be created: " + ::strerrordesc_np(error.value());
        return error;
    }
    Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    // A group may have been given the right to pass through (--x) and not to list: O_PATH asks for no more than that.
    if (!fd && errno == EACCES) fd.reset(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat st {};
    if (!fd || ::fstat(fd.get(), &st) != 0) {
        const Errno error = tell_link(last_errno(), path);
        ret_why = subject + explain_open(error);
        return error;
    }
    if (std::string rule = broken_rule(st, choice.named); !rule.empty()) {
        ret_why = subject + rule;
        return Errno{EACCES};
    }
    return SocketDir{std::move(fd), std::move(choice.path)};
}

Errno SocketDir::bind(int socket, std::string_view fabric, std::string& ret_why) const {
    sockaddr_un address{};
    socklen_t length = 0;
    if (const Errno error = make_address(*this, fabric, address, length, ret_why); error.failed()) return error;
    // The casts are the socket API's own idiom.
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0 ? Errno{} : last_errno();
}

Errno SocketDir::connect(int socket, std::string_view fabric, std::string& ret_why) const {
    sockaddr_un address{};
    socklen_t length = 0;
    if (const Errno error = make_address(*this, fabric, address, length, ret_why); error.failed()) return error;
    int result = 0;
    do { // A blocking connect to a full backlog may be interrupted; a UNIX one may then simply be asked again.
        result = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), length);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? Errno{} : last_errno();
}

bool valid_fabric_name(std::string_view name) noexcept {
    if (name.empty() || name.size() >= NVLF_NAME_LEN || name == "." || name == ".." || name.front() == '-')
        return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    });
}

std::string socket_file(std::string_view fabric) { return std::string{fabric} + ".sock"; }

std::string fabric_name(std::string_view wanted) {
    if (!wanted.empty()) return std::string{wanted};
    const auto name = variable("NVLF_FABRIC");
    return std::string{name.empty() ? "default" : name};
}

} // namespace nvlf
