// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The smallest program that uses what NVLF is for: memory on another device, by a pointer that is its fabric address.
// With no fabric running it starts one, so it also proves that an installed libnvlf finds its installed daemon.
#include <nvlf/nvlf.h>

#include <stdio.h>
#include <string.h>

static int failed(const char* what, int error) {
    fprintf(stderr, "consumer: %s: %s\n", what, strerror(-error));
    return 1;
}

int main(void) {
    struct nvlf_fabric* fabric = NULL;
    int error = nvlf_open(NULL, &fabric);
    if (error < 0) return failed("open", error);

    struct nvlf_mem* mem = NULL;
    error = nvlf_mem_alloc(fabric, 0, 4096, 0, &mem);
    if (error < 0) return failed("allocate on device 0", error);

    void* ptr = NULL;
    error = nvlf_mem_map(mem, &ptr);
    if (error < 0) return failed("map", error);
    strcpy(ptr, "through the fabric");
    const int is_its_address =
        nvlf_translates(fabric) ? nvlf_fla(fabric, ptr) == nvlf_mem_fla(mem) : (uintptr_t)ptr == nvlf_mem_fla(mem);
    printf("consumer: wrote \"%s\" at %#llx\n", (const char*)ptr, (unsigned long long)nvlf_mem_fla(mem));

    nvlf_mem_put(mem);
    nvlf_close(fabric);
    return is_its_address ? 0 : 1;
}
