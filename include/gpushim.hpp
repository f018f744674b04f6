/*
 * gpushim.hpp - gpushim.h and gpushim_memory.h for C++11 and later: a buffer that is
 * freed with its object, and a scope that ends with its block.
 *
 * Sizes, errors and threads: as in those two files. Constructors throw gpushim::error;
 * without exceptions the object stays empty.
 */
#ifndef GPUSHIM_HPP
#define GPUSHIM_HPP

#include <stdexcept>

#include "gpushim_memory.h"

namespace gpushim
{

/* What a constructor throws. */
class error : public std::runtime_error
{
  public:
    explicit error(gpushim_result code)
        : std::runtime_error(gpushim_result_text(code)), code_(code)
    {
    }
    gpushim_result code() const noexcept
    {
        return code_;
    }

  private:
    gpushim_result code_;
};

/* Owned memory; moved, not copied. Waits for running work at its end, as cudaFree does.
 */
class buffer
{
  public:
    buffer() noexcept : own_()
    {
    }
    explicit buffer(size_t bytes, gpushim_place place = GPUSHIM_DEVICE,
                    size_t alignment = 0, unsigned flags = 0)
        : own_()
    {
        gpushim_result result = create(bytes, place, alignment, flags);
        (void)result;
#ifdef __cpp_exceptions
        if (result != GPUSHIM_OK) {
            throw error(result);
        }
#endif
    }
    ~buffer()
    {
        reset();
    }
    buffer(buffer &&other) noexcept : own_(other.own_)
    {
        other.own_ = gpushim_buffer();
    }
    buffer &operator=(buffer &&other) noexcept
    {
        if (this != &other) {
            reset();
            own_ = other.own_;
            other.own_ = gpushim_buffer();
        }
        return *this;
    }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;

    /* Frees what it has, and allocates. */
    gpushim_result create(size_t bytes, gpushim_place place = GPUSHIM_DEVICE,
                          size_t alignment = 0, unsigned flags = 0) noexcept
    {
        gpushim_result result = reset();
        return result == GPUSHIM_OK
                   ? gpushim_buffer_create(&own_, place, bytes, alignment, flags)
                   : result;
    }
    gpushim_result reset() noexcept
    {
        return gpushim_buffer_free(&own_);
    }
    explicit operator bool() const noexcept
    {
        return own_.data != nullptr;
    }
    size_t bytes() const noexcept
    {
        return own_.bytes;
    }
    size_t capacity() const noexcept
    {
        return own_.capacity;
    }
    /* Its memory as elements of a type, and how many. */
    template <class T> T *as() const noexcept
    {
        return static_cast<T *>(own_.data);
    }
    template <class T> size_t length() const noexcept
    {
        return own_.bytes / sizeof(T);
    }
    /* For the functions of gpushim_memory.h. */
    gpushim_buffer *get() noexcept
    {
        return &own_;
    }

  private:
    gpushim_buffer own_;
};

/* gpushim_scope_begin at its start, gpushim_scope_end at its end, on one thread. */
class scope
{
  public:
    explicit scope(const char *name) noexcept : begun_(gpushim_scope_begin(name))
    {
    }
    ~scope()
    {
        if (begun_ != GPUSHIM_INACTIVE) {
            gpushim_scope_end();
        }
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    /* What gpushim_scope_begin returned. */
    gpushim_result result() const noexcept
    {
        return begun_;
    }

  private:
    gpushim_result begun_;
};

} // namespace gpushim

#endif
