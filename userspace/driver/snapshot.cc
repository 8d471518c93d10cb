// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A look at a fabric without being its client: through the state region of the one that runs, or through the image that
// was installed for a preset. Libraries ask "which devices would there be?" of every process that starts, so this
// neither starts anything nor stays connected.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "driver/connect.hpp"
#include "driver/error_text.hpp"
#include "driver/fabric.hpp"
#include "driver/on_demand.hpp"
#include "driver/state_check.hpp"

struct nvlf_snapshot {
    nvlf::Mapping region;         // Of a running fabric: live as long as we hold it.
    std::vector<std::byte> image; // Of a file: a copy, which nobody can cut short under us.
};

namespace nvlf {
namespace {

constexpr const char* default_topology = "fusion-mixed-8"; // As nvlfd's.
constexpr off_t largest_image = 64 << 20;                  // The limits of device.h allow some 15 MB.

std::vector<std::string> image_places(const std::string& library, const std::string& name) {
    std::vector<std::string> places;
    if (library.empty()) return places;
    // lib/ and the build tree; then Debian's lib/<multiarch>/.
    for (const char* relative : {"/../share/nvlf/state/", "/../../share/nvlf/state/"})
        places.push_back(library + relative + name + ".state");
    return places;
}

bool preset_name(const std::string& name) {
    return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    });
}

Errno read_image(const std::string& path, std::vector<std::byte>& image) {
    const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat st {};
    if (!fd || ::fstat(fd.get(), &st) != 0) return last_errno();
    if (!S_ISREG(st.st_mode) || st.st_size > largest_image) return Errno{EPROTO};
    image.resize(static_cast<std::size_t>(st.st_size));
    std::size_t filled = 0;
    while (filled < image.size()) {
        const ssize_t got = ::read(fd.get(), image.data() + filled, image.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return last_errno();
        if (got == 0) return Errno{EPROTO}; // It became shorter.
        filled += static_cast<std::size_t>(got);
    }
    return check_state(image);
}

Errno look_at_image(const std::string& topology, nvlf_snapshot& snapshot, std::string& why) {
    const std::string name = topology.empty() ? default_topology : topology;
    if (!preset_name(name)) {
        why += "; " + name + " is not the name of a preset, and a topology file has no image to look at";
        return Errno{ENOENT};
    }
    const auto places = image_places(library_dir(), name);
    for (const std::string& place : places) {
        const Errno error = read_image(place, snapshot.image);
        if (error == Errno{ENOENT} || error == Errno{ENOTDIR}) continue;
        if (error.failed()) why = place + (error == Errno{EPROTO} ? " is damaged" : " cannot be used");
        return error;
    }
    why += "; no image of the topology " + name + " was found, looked for";
    for (const std::string& place : places) why += ' ' + place;
    return Errno{ENOENT};
}

Errno look(const nvlf_open_args* args, nvlf_snapshot& snapshot, std::string& why) {
    const Result<OpenWish> wish = understand(args, why);
    if (!wish) return wish.error();
    Result<std::unique_ptr<Carrier>> carrier = connect_running(*wish, why);
    if (carrier) {
        nvlf_ioc_info info;
        Errno error = ask_info(**carrier, info, why);
        if (!error.failed()) error = map_state(**carrier, info, snapshot.region, nullptr, why);
        // ENODEV: it ended while we looked, which is no different from having ended before.
        if (error != Errno{ENODEV}) return error;
    } else if (carrier.error() != Errno{ENOENT}) {
        return carrier.error();
    }
    return look_at_image(wish->topology, snapshot, why);
}

} // namespace
} // namespace nvlf

using namespace nvlf;

int nvlf_snapshot_open(const nvlf_open_args* args, nvlf_snapshot** ret_snapshot) noexcept {
    if (ret_snapshot == nullptr) return -EINVAL;
    return guarded([&] {
        auto snapshot = std::make_unique<nvlf_snapshot>();
        std::string why;
        if (const Errno error = look(args, *snapshot, why); error.failed()) return explain(error, std::move(why));
        *ret_snapshot = snapshot.release();
        return 0;
    });
}

void nvlf_snapshot_close(nvlf_snapshot* snapshot) noexcept { delete snapshot; }

const nvlf_state* nvlf_snapshot_state(const nvlf_snapshot* snapshot, size_t* ret_bytes) noexcept {
    if (snapshot == nullptr) return nullptr;
    const bool running = static_cast<bool>(snapshot->region);
    if (ret_bytes != nullptr) *ret_bytes = running ? snapshot->region.size() : snapshot->image.size();
    const void* start = running ? snapshot->region.data() : static_cast<const void*>(snapshot->image.data());
    return static_cast<const nvlf_state*>(start);
}
