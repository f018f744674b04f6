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

int main(int argc, char **argv)
{
    app_gpu_start();

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
                   gpushim_buffer_get_slot(device.get(), 99, sizeof found, &found,
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
    return 0;
}
