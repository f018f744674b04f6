/*
 * raii.cpp - the classes of gpushim.hpp: memory freed with its object, also on the way of
 * an exception; moved, not copied; scopes that end with their block. Prints what it
 * found, the same with the library and without it, but for what the report says.
 *
 *   raii_WAY [leak]      leak: keeps a buffer of the scope "outer/inner"
 */
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpushim.hpp"

extern "C" {
#include "gpu.h"
}

static_assert(!std::is_copy_constructible<gpushim::buffer>::value, "a copy");
static_assert(!std::is_copy_assignable<gpushim::buffer>::value, "a copy");
static_assert(std::is_nothrow_move_constructible<gpushim::buffer>::value, "a move");
static_assert(!std::is_copy_constructible<gpushim::scope>::value, "a copy");

static gpushim::buffer filled(int value)
{
    gpushim::buffer made(4000);

    app_expect(gpushim_buffer_fill(made.get(), 0, made.bytes(),
                                   static_cast<unsigned char>(value),
                                   GPUSHIM_SYNC) == GPUSHIM_OK,
               "a fill");
    return made;
}

static int first_of(gpushim::buffer &buffer)
{
    unsigned char byte = 0;

    app_expect(gpushim_buffer_get(buffer.get(), 0, &byte, 1, GPUSHIM_SYNC) == GPUSHIM_OK,
               "a get");
    return byte;
}

static void throw_beside_memory()
{
    gpushim::scope scope("thrown");
    gpushim::buffer lost(1 << 20);
    gpushim::buffer never(static_cast<size_t>(1) << 60);

    app_expect(false, "there is no such memory");
}

/* A group's memory is freed with it, on the way of an exception, too. */
static void throw_from_a_group()
{
    gpushim::group group("thrown");

    (void)group.alloc(1 << 20);
    (void)group.alloc<double>(static_cast<size_t>(1) << 60);
    app_expect(false, "there is no such memory");
}

static void use_a_group()
{
    gpushim::group group("bfs", GPUSHIM_PINNED_HOST, 2);

    app_expect(group.preallocate(4000) == GPUSHIM_OK, "memory ahead");
    int *ranks = group.alloc<int>(1000, GPUSHIM_ZEROED);
    gpushim_buffer flags = group.alloc(100);
    ranks[999] += 7;
    gpushim_group found = group.counters();
    std::printf("group %s: %d, %d bytes of %zu, count %d, typed %d, reused %d\n",
                found.name, ranks[999], static_cast<int>(found.current_bytes),
                flags.bytes, static_cast<int>(found.count),
                static_cast<int>(found.typed_count),
                static_cast<int>(found.reused_count));
    app_expect(group.clear() == GPUSHIM_OK, "a clear");
    found = group.counters();
    std::printf("cleared: %d bytes, peak %d, live %d\n",
                static_cast<int>(found.current_bytes), static_cast<int>(found.peak_bytes),
                static_cast<int>(found.live_count));
    try {
        throw_from_a_group();
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
    try {
        gpushim::group none("");
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
}

/* A set's buffers are freed with it, on the way of an exception, too. */
static void throw_from_a_set()
{
    gpushim::buffers set(1000);

    (void)set.resize("kept", 800);
    (void)set.resize("never", 300);
    app_expect(false, "beyond the limit");
}

static void use_a_set()
{
    gpushim_buffer_type edge = gpushim_buffer_type();
    edge.growth = 3;
    gpushim::buffers set(5000, {gpushim_buffer_type(), edge});

    gpushim_buffer *edges = set.resize("edges", 1000, 1);
    set.resize("nodes", 100);
    set.resize("edges", 1001, 1);
    app_expect(set.find("edges") == edges && edges->capacity == 3000, "growth of a type");
    set.resize("nodes", 0);
    app_expect(set.find("nodes") == nullptr, "an empty buffer");
    size_t freed = 0;
    app_expect(set.clean(true, &freed) == GPUSHIM_OK, "a clean-up");
    gpushim_buffers_statistics found = set.statistics();
    std::printf("set: %d of %d bytes, peak %d, freed %d\n",
                static_cast<int>(found.used_bytes), static_cast<int>(found.held_bytes),
                static_cast<int>(found.peak_bytes), static_cast<int>(freed));
    app_expect(set.drop("edges") == GPUSHIM_OK && set.get()->count == 0, "a drop");
    try {
        throw_from_a_set();
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
    try {
        edge.growth = 99;
        gpushim::buffers none(0, {edge});
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
}

/* What was taken goes back with its block, on the way of an exception, too: it would
 * count against the limit, and never be a hit. */
static void throw_with_a_taken_one(gpushim::cache &cache)
{
    gpushim::cache::taken buffer = cache.take(7, 3000), never;

    never = cache.take(8, 3000);
    app_expect(false, "beyond the limit");
}

static void use_a_cache()
{
    struct {
        unsigned type, slots;
    } key = {1, 4};
    gpushim::cache cache(GPUSHIM_DEVICE, 1, 5000);

    for (int i = 0; i < 4; i++) {
        gpushim::cache::taken buffer = cache.take(key, 1000);
        app_expect(buffer && buffer.bytes() == 1000 && buffer.as<char>() != nullptr,
                   "a buffer");
        gpushim::cache::taken moved(std::move(buffer));
        app_expect(!buffer && moved, "a move");
    }
    std::printf("cache: hit rate %.2f, %d idle\n", cache.hit_rate(),
                static_cast<int>(cache.get()->idle_count));
    for (int i = 0; i < 2; i++) {
        try {
            throw_with_a_taken_one(cache);
        } catch (const gpushim::error &error) {
            std::printf("caught: %s, %d of 5000 bytes held\n", error.what(),
                        static_cast<int>(cache.get()->held_bytes));
        }
    }
    gpushim::cache::taken other = cache.take("words", 5, 100);
    app_expect(other.give() == GPUSHIM_OK && !other && other.give() == GPUSHIM_OK,
               "given before its end");
    size_t freed = 0;
    app_expect(cache.trim(0, &freed) == GPUSHIM_OK && cache.get()->idle_count == 0 &&
                   freed == cache.get()->held_bytes + freed,
               "a trim");
    try {
        (void)cache.take(nullptr, 3, 10);
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
    try {
        gpushim::cache none(GPUSHIM_DEVICE, 0);
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
    }
}

static int throws(void *, const gpushim_allocation *)
{
    throw 42;
}

/* An exception leaves a visit, and the library still answers. */
static void throw_from_a_visit()
{
    gpushim::buffer block(5000);
    bool active = gpushim_library_version()[0] != '\0', thrown = false;
    gpushim_allocation found;

    try {
        (void)gpushim_visit_allocations(GPUSHIM_EVERYWHERE, throws, nullptr);
    } catch (int) {
        thrown = true;
    }
    app_expect(thrown == active, "an exception out of a visit");
    app_expect(gpushim_find_allocation(block.as<char>() + 4999, &found) ==
                       (active ? GPUSHIM_OK : GPUSHIM_INACTIVE) &&
                   found.bytes == (active ? 5000u : 0u),
               "a call after the exception");
}

static void measure()
{
    const bool active = gpushim_library_version()[0] != '\0';
    gpushim::measured_scope outer("measured"), inner("GET /v1"), refused("");
    gpushim::buffer block(3000);
    {
        gpushim::scope deeper("deeper");
        gpushim::buffer more(2000, GPUSHIM_PINNED_HOST);
    }
    app_expect(outer.path() == (active ? "measured" : "") &&
                   inner.path() == (active ? "measured/GET :v1" : "") &&
                   refused.path().empty(),
               "paths");
    const gpushim_scope_totals all = inner.statistics(),
                               host = inner.statistics(GPUSHIM_PINNED);
    app_expect(all.live_bytes == (active ? 3000u : 0u) &&
                   all.peak_bytes == (active ? 5000u : 0u) &&
                   all.allocs == (active ? 2u : 0u) && all.begun == (active ? 1u : 0u),
               "the figures of a scope");
    app_expect(host.live_bytes == 0 && host.peak_bytes == (active ? 2000u : 0u),
               "those of its pinned memory");
    app_expect(refused.statistics().allocs == 0, "those of a name that was refused");
}

int main(int argc, char **argv)
{
    app_gpu_start();
    use_a_group();
    use_a_set();
    use_a_cache();
    throw_from_a_visit();

    gpushim::buffer empty;
    app_expect(!empty && empty.bytes() == 0 && !empty.as<int>(), "an empty buffer");
    app_expect(empty.reset() == GPUSHIM_OK, "the end of an empty buffer");

    std::vector<gpushim::buffer> many;
    for (int i = 0; i < 20; i++)
        many.push_back(filled(i)); /* moves them as it grows */
    for (int i = 0; i < 20; i++)
        app_expect(first_of(many[static_cast<size_t>(i)]) == i, "a moved buffer");
    gpushim::buffer last(std::move(many.back()));
    app_expect(!many.back() && first_of(last) == 19, "what was moved away");
    many.front() = std::move(last);
    app_expect(!last && first_of(many.front()) == 19, "what was assigned");
    std::printf("%zu of %zu words\n", many.front().length<int>(), many.size());

    gpushim::buffer host(100 * sizeof(double), GPUSHIM_PINNED_HOST, 4096, GPUSHIM_ZEROED);
    double *numbers = host.as<double>();
    for (size_t i = 0; i < host.length<double>(); i++)
        numbers[i] += static_cast<double>(i);
    gpushim::buffer device(host.bytes());
    double found = 0;
    app_expect(gpushim_buffer_copy(device.get(), 0, host.get(), 0, host.bytes(),
                                   GPUSHIM_SYNC) == GPUSHIM_OK &&
                   gpushim_buffer_get_slot(device.get(), 99, sizeof(found), &found,
                                           GPUSHIM_SYNC) == GPUSHIM_OK,
               "copies");
    std::printf("number 99: %g\n", found);

    try {
        throw_beside_memory();
    } catch (const gpushim::error &error) {
        std::printf("caught: %s\n", error.what());
        app_expect(error.code() == GPUSHIM_NO_MEMORY, "a code");
    }
    {
        gpushim::scope outer("outer");
        gpushim::scope inner("inner");
        if (argc > 1 && std::strcmp(argv[1], "leak") == 0)
            new gpushim::buffer(12345);
        std::printf("scopes: %d\n", outer.result() == inner.result());
    }
    app_expect(gpushim_scope_end() != GPUSHIM_OK, "a scope that goes on");
    measure();
    return 0;
}
