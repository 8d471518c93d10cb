// SPDX-License-Identifier: MIT OR GPL-2.0-only
// nic.cc - fi_info.nic: a device of the fabric in the words that libfabric has for network cards.
//
// NVSHMEM takes no provider without it; NCCL plugins, MPICH and Open MPI look for the PCI address to tell which device
// is near. Ours is synthetic: domain = node that hosts the device, bus and slot = index of the device. So devices of
// one node look near to each other and far from those of another node, as they are.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "info.hpp"
#include "none.hpp"

namespace nvlf::ofi {
namespace {

// libfabric's structs inside one allocation of ours, so that close is one delete. The strings live in it too.
struct Nic {
    fid_nic fid{};
    fi_device_attr device{};
    fi_bus_attr bus{};
    fi_link_attr link{};
    std::string name, model, vendor, driver, firmware, network;

    // Points libfabric's fields at our own strings; after each copy.
    void link_up() noexcept {
        device.name = name.data();
        device.device_id = model.data();
        device.device_version = nullptr; // Not known of anything here.
        device.vendor_id = vendor.data();
        device.driver = driver.data();
        device.firmware = firmware.data();
        link.address = name.data();
        link.network_type = network.data();
        fid.device_attr = &device;
        fid.bus_attr = &bus;
        fid.link_attr = &link;
        fid.prov_attr = nullptr;
    }
};

Nic& nic_of(::fid* fid) noexcept { return *reinterpret_cast<Nic*>(fid); }

int nic_close(::fid* fid) {
    delete &nic_of(fid);
    return 0;
}

int nic_control(::fid* fid, int command, void* arg) {
    if (command != FI_DUP) return -FI_ENOSYS;
    if (arg == nullptr) return -FI_EINVAL;
    try {
        auto copy = std::make_unique<Nic>(nic_of(fid));
        copy->link_up();
        *static_cast<fid_nic**>(arg) = &copy.release()->fid;
        return 0;
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    }
}

// Appends to what is in the buffer, in the layout that fi_info -v has for cards.
int nic_tostr(const ::fid* fid, char* buf, std::size_t len) {
    const fid_nic& nic = *reinterpret_cast<const fid_nic*>(fid);
    const std::size_t used = ::strnlen(buf, len);
    if (used == len) return -FI_ETOOSMALL;
    const fi_pci_attr& pci = nic.bus_attr->attr.pci;
    const int written =
        std::snprintf(buf + used, len - used,
                      "    nic:\n"
                      "        fi_device_attr:\n            name: %s\n            device_id: %s\n"
                      "            vendor_id: %s\n            driver: %s\n            firmware: %s\n"
                      "        fi_bus_attr:\n            bus_type: FI_BUS_PCI\n            fi_pci_attr:\n"
                      "                domain_id: %u\n                bus_id: %u\n                device_id: %u\n"
                      "                function_id: %u\n"
                      "        fi_link_attr:\n            address: %s\n            mtu: %zu\n            speed: %zu\n"
                      "            state: %s\n            network_type: %s\n",
                      nic.device_attr->name, nic.device_attr->device_id, nic.device_attr->vendor_id,
                      nic.device_attr->driver, nic.device_attr->firmware, pci.domain_id, pci.bus_id, pci.device_id,
                      pci.function_id, nic.link_attr->address, nic.link_attr->mtu, nic.link_attr->speed,
                      nic.link_attr->state == FI_LINK_UP ? "FI_LINK_UP" : "FI_LINK_DOWN", nic.link_attr->network_type);
    return static_cast<std::size_t>(written) < len - used ? 0 : -FI_ETOOSMALL;
}

fi_ops nic_ops{sizeof(fi_ops), nic_close, no_bind, nic_control, no_ops_open, nic_tostr, no_ops_set};

std::string text(const char* field, std::size_t bytes) { return {field, ::strnlen(field, bytes)}; }

} // namespace

fid_nic* nic_new(const nvlf_device& device) noexcept try {
    auto nic = std::make_unique<Nic>();
    nic->fid.fid = {.fclass = FI_CLASS_NIC, .context = nullptr, .ops = &nic_ops};
    nic->name = text(device.name, sizeof device.name);
    nic->model = text(device.model, sizeof device.model);
    nic->vendor = device.kind == NVLF_DEVICE_TRAINIUM ? "0x1d0f" : "0x10de"; // Amazon, NVIDIA.
    nic->driver = "nvlf";
    nic->firmware = std::to_string(NVLF_VERSION_MAJOR) + "." + std::to_string(NVLF_VERSION_MINOR) + "." +
                    std::to_string(NVLF_VERSION_PATCH);
    nic->network = "NVLink Fusion";
    nic->bus.bus_type = FI_BUS_PCI;
    nic->bus.attr.pci.domain_id = static_cast<std::uint16_t>(device.node);
    nic->bus.attr.pci.bus_id = static_cast<std::uint8_t>(device.index);
    nic->bus.attr.pci.device_id = static_cast<std::uint8_t>(device.index >> 8 & 0x1f);
    nic->link.speed = device.rate * 8; // Bits per second.
    nic->link.state = device.state == NVLF_STATE_DOWN ? FI_LINK_DOWN : FI_LINK_UP;
    nic->link_up();
    return &nic.release()->fid;
} catch (const std::bad_alloc&) {
    return nullptr;
}

} // namespace nvlf::ofi
