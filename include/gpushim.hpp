/*
 * gpushim.hpp - gpushim.h and gpushim_memory.h for C++11 and later: a buffer, a group, a
 * set of named buffers and a cache, freed with their object, buffers of a cache that are
 * given back with theirs, and scopes that end with their block.
 *
 * Sizes, errors and threads: as in those two files. Constructors throw gpushim::error;
 * without exceptions the object stays empty.
 */
#ifndef GPUSHIM_HPP
#define GPUSHIM_HPP

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

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

/* Buffers of one piece of work, allocated one by one and freed with their object. */
class group
{
  public:
    /* As gpushim_group_create. */
    explicit group(const char *name, gpushim_place place = GPUSHIM_DEVICE,
                   size_t expected = 0)
        : own_()
    {
        check(gpushim_group_create(&own_, name, place, expected));
    }
    ~group()
    {
        (void)gpushim_group_free(&own_);
    }
    group(const group &) = delete;
    group &operator=(const group &) = delete;

    /* Views of the group's memory. They throw gpushim::error; without exceptions a failed
     * one has no data. */
    gpushim_buffer alloc(size_t bytes, unsigned flags = 0)
    {
        gpushim_buffer view = gpushim_buffer();
        check(gpushim_group_alloc(&own_, bytes, flags, &view));
        return view;
    }
    template <class T> T *alloc(size_t count, unsigned flags = 0)
    {
        gpushim_buffer view = gpushim_buffer();
        check(gpushim_group_alloc_typed(&own_, count, sizeof(T), flags, &view));
        return static_cast<T *>(view.data);
    }
    gpushim_result preallocate(size_t bytes) noexcept
    {
        return gpushim_group_preallocate(&own_, bytes);
    }
    gpushim_result clear() noexcept
    {
        return gpushim_group_clear(&own_);
    }
    /* For the functions of gpushim_memory.h. */
    gpushim_group *get() noexcept
    {
        return &own_;
    }
    /* Its counters. */
    gpushim_group counters() noexcept
    {
        gpushim_group found = gpushim_group();
        (void)gpushim_group_get(&own_, &found);
        return found;
    }

  private:
    static void check(gpushim_result result)
    {
        (void)result;
#ifdef __cpp_exceptions
        if (result != GPUSHIM_OK) {
            throw error(result);
        }
#endif
    }
    ::gpushim_group own_;
};

/* Named buffers that grow by type, under one limit, freed with their object. */
class buffers
{
  public:
    /* As gpushim_buffers_create; throws gpushim::error. */
    explicit buffers(size_t limit = 0,
                     std::initializer_list<gpushim_buffer_type> types = {})
        : own_()
    {
        gpushim_result result =
            gpushim_buffers_create(&own_, limit, types.begin(), types.size());
        (void)result;
#ifdef __cpp_exceptions
        if (result != GPUSHIM_OK) {
            throw error(result);
        }
#endif
    }
    ~buffers()
    {
        (void)gpushim_buffers_free(&own_);
    }
    buffers(const buffers &) = delete;
    buffers &operator=(const buffers &) = delete;

    /* As gpushim_buffers_resize; NULL for 0 bytes. Throws gpushim::error; without
     * exceptions a failed one is NULL. */
    gpushim_buffer *resize(const char *name, size_t bytes, size_t type = 0,
                           void *stream = GPUSHIM_SYNC)
    {
        gpushim_buffer *found = nullptr;
        gpushim_result result =
            gpushim_buffers_resize(&own_, name, type, bytes, stream, &found);
        (void)result;
#ifdef __cpp_exceptions
        if (result != GPUSHIM_OK) {
            throw error(result);
        }
#endif
        return found;
    }
    /* NULL: there is none, or it is empty. */
    gpushim_buffer *find(const char *name) noexcept
    {
        gpushim_buffer *found = nullptr;
        (void)gpushim_buffers_find(&own_, name, &found);
        return found;
    }
    gpushim_result drop(const char *name) noexcept
    {
        return gpushim_buffers_drop(&own_, name);
    }
    gpushim_result clean(bool all = false, size_t *freed = nullptr) noexcept
    {
        return gpushim_buffers_clean(&own_, all, freed);
    }
    gpushim_buffers_statistics statistics() noexcept
    {
        gpushim_buffers_statistics found = gpushim_buffers_statistics();
        (void)gpushim_buffers_get_statistics(&own_, &found);
        return found;
    }
    /* For the functions of gpushim_memory.h. */
    gpushim_buffers *get() noexcept
    {
        return &own_;
    }

  private:
    ::gpushim_buffers own_;
};

/* Buffers for reuse, by key. Ends after all that was taken from it; idle buffers are freed
 * then. */
class cache
{
  public:
    /* A buffer of the cache, which is given back at its end, also on the way of an
     * exception; moved, not copied. Empty without a buffer. */
    class taken
    {
      public:
        taken() noexcept : cache_(nullptr), key_(), own_()
        {
        }
        ~taken()
        {
            (void)give();
        }
        taken(taken &&other) noexcept
            : cache_(other.cache_), key_(std::move(other.key_)), own_(other.own_)
        {
            other.own_ = gpushim_buffer();
        }
        taken &operator=(taken &&other) noexcept
        {
            if (this != &other) {
                (void)give();
                cache_ = other.cache_;
                key_ = std::move(other.key_);
                own_ = other.own_;
                other.own_ = gpushim_buffer();
            }
            return *this;
        }
        taken(const taken &) = delete;
        taken &operator=(const taken &) = delete;

        /* As gpushim_cache_give, under the key that it was taken by. */
        gpushim_result give() noexcept
        {
            return own_.data ? gpushim_cache_give(cache_, key_.data(), key_.size(), &own_)
                             : GPUSHIM_OK;
        }
        explicit operator bool() const noexcept
        {
            return own_.data != nullptr;
        }
        size_t bytes() const noexcept
        {
            return own_.bytes;
        }
        template <class T> T *as() const noexcept
        {
            return static_cast<T *>(own_.data);
        }
        /* For the functions of gpushim_memory.h. */
        gpushim_buffer *get() noexcept
        {
            return &own_;
        }

      private:
        friend class cache;
        ::gpushim_cache *cache_;
        std::string key_;
        gpushim_buffer own_;
    };

    /* As gpushim_cache_create; throws gpushim::error. */
    explicit cache(gpushim_place place, size_t most = 1, size_t limit = 0) : own_()
    {
        check(gpushim_cache_create(&own_, place, most, limit));
    }
    ~cache()
    {
        (void)gpushim_cache_free(&own_);
    }
    cache(const cache &) = delete;
    cache &operator=(const cache &) = delete;

    /* As gpushim_cache_take. They throw gpushim::error; without exceptions a failed one is
     * empty. The key: bytes, or an object's, which has no padding. */
    taken take(const void *key, size_t key_bytes, size_t bytes)
    {
        taken found;
        found.cache_ = &own_;
        found.key_.assign(static_cast<const char *>(key), key ? key_bytes : 0);
        check(gpushim_cache_take(&own_, key, key_bytes, bytes, &found.own_));
        return found;
    }
    template <class Key> taken take(const Key &key, size_t bytes)
    {
        static_assert(std::is_trivial<Key>::value && !std::is_pointer<Key>::value &&
                          !std::is_array<Key>::value,
                      "a key is the bytes of an object");
        return take(&key, sizeof(key), bytes);
    }
    /* As gpushim_cache_trim. */
    gpushim_result trim(uint64_t seconds = 0, size_t *freed = nullptr) noexcept
    {
        return gpushim_cache_trim(&own_, seconds, freed);
    }
    double hit_rate() const noexcept
    {
        return gpushim_cache_hit_rate(&own_);
    }
    /* For the functions of gpushim_memory.h, and its counters. */
    gpushim_cache *get() noexcept
    {
        return &own_;
    }

  private:
    static void check(gpushim_result result)
    {
        (void)result;
#ifdef __cpp_exceptions
        if (result != GPUSHIM_OK) {
            throw error(result);
        }
#endif
    }
    ::gpushim_cache own_;
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

/* A scope that says what was allocated in it. */
class measured_scope
{
  public:
    explicit measured_scope(const char *name) : scope_(name), path_()
    {
        char path[GPUSHIM_SCOPE_BYTES];
        if (scope_.result() == GPUSHIM_OK &&
            gpushim_scope_path(path, sizeof(path)) == GPUSHIM_OK) {
            path_ = path;
        }
    }
    measured_scope(const measured_scope &) = delete;
    measured_scope &operator=(const measured_scope &) = delete;
    /* What gpushim_scope_begin returned. */
    gpushim_result result() const noexcept
    {
        return scope_.result();
    }
    /* "step/forward"; "" without the library, and if the name was refused. */
    const std::string &path() const noexcept
    {
        return path_;
    }
    /* As gpushim_scope_statistics, on any thread: of all scopes with this path so far.
     * All 0 on an error. */
    gpushim_scope_totals statistics(int device = GPUSHIM_ALL_DEVICES) const noexcept
    {
        gpushim_scope_totals found = gpushim_scope_totals();
        if (!path_.empty()) {
            (void)gpushim_scope_statistics(path_.c_str(), device, &found);
        }
        return found;
    }

  private:
    scope scope_;
    std::string path_;
};

} // namespace gpushim

#endif
