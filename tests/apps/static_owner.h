/*
 * static_owner.h - an object that owns device memory for the life of the program.
 */
#ifndef APP_STATIC_OWNER_H
#define APP_STATIC_OWNER_H

#include "gpu.h"

class StaticOwner
{
  public:
    StaticOwner(const char *name, uint32_t seed, size_t bytes)
        : name_(name), seed_(seed), bytes_(bytes)
    {
        void *host = app_host_memory(bytes_);

        app_gpu_start();
        app_bytes_fill(host, bytes_, seed_);
        APP_OK(cudaMalloc(&block_, bytes_));
        APP_OK(gpu_put(block_, host, bytes_));
        free(host);
    }

    ~StaticOwner()
    {
        void *host = app_host_memory(bytes_);

        APP_OK(gpu_get(host, block_, bytes_));
        APP_OK(gpu_free(block_));
        app_expect(app_bytes_match(host, bytes_, seed_), name_);
        printf("ctor: %s frees %zu bytes, checksum %016llx\n", name_, bytes_,
               (unsigned long long)app_checksum(APP_CHECKSUM, host, bytes_));
        fflush(stdout);
        free(host);
    }

    StaticOwner(const StaticOwner &) = delete;
    StaticOwner &operator=(const StaticOwner &) = delete;

  private:
    const char *name_;
    uint32_t seed_;
    size_t bytes_;
    void *block_ = nullptr;
};

#endif
