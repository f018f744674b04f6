/*
 * sim_nonsense_calls.cpp - calls any driver function with nonsense of the right types. In
 * C++, because there a function's type tells those of its arguments.
 *
 * A pointer to a type that the headers do not complete is a handle, any other one leads
 * to data. An `unsigned long long` is an address (size_t and the 64-bit values of memory
 * operations are not): it is treated as one.
 *
 * Owns:  the buffers and handles that arguments are made of.   Lock: none, one thread.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaProfiler.h>

#include <stdint.h>
#include <string.h>
#include <type_traits>

#include "sim_nonsense_calls.h"

namespace
{

enum data { NO_DATA, BUFFERS };
enum handle {
    NO_HANDLE,
    WILD_HANDLE,
    MADE_UP_HANDLE,
    STALE_HANDLE,
    FOREIGN_HANDLE,
    LIVE_HANDLE,
};

struct plan {
    data pointers;
    int number;
    handle handles;
};

const plan plans[] = {
#define NONSENSE_PLAN(name, data, number, handle) {data, number, handle},
    NONSENSE_KINDS(NONSENSE_PLAN)
#undef NONSENSE_PLAN
};

const size_t buffer_bytes = 1 << 16;
const size_t buffer_count = 24;

alignas(65536) unsigned char buffers[buffer_count][buffer_bytes];
nonsense_handles live_handles, stale_handles;
size_t buffers_used; /* by the arguments made so far */

void *next_buffer()
{
    return buffers[buffers_used++ % buffer_count];
}

/* The handle of that type; of a type that is not listed, none. */
#define SELECT(type, member)                                                             \
    void *select(const nonsense_handles &from, type *)                                   \
    {                                                                                    \
        return from.member;                                                              \
    }
SELECT(CUcontext, context)
SELECT(CUstream, stream)
SELECT(CUevent, event)
SELECT(CUmodule, module)
SELECT(CUfunction, function)
SELECT(CUlibrary, library)
SELECT(CUkernel, kernel)
SELECT(CUgraph, graph)
SELECT(CUgraphNode, node)
SELECT(CUgraphExec, exec)
SELECT(CUmemoryPool, pool)
SELECT(CUarray, array)
SELECT(CUmipmappedArray, mipmap)
SELECT(CUuserObject, object)
#undef SELECT

void *select(const nonsense_handles &, void *)
{
    return nullptr;
}

template <typename T, typename = void> struct is_complete : std::false_type {
};
template <typename T> struct is_complete<T, decltype(void(sizeof(T)))> : std::true_type {
};

/* A function of the wanted type that does nothing. */
template <typename T> struct quiet;
template <typename R, typename... A> struct quiet<R(A...)> {
    static R run(A...)
    {
        return R();
    }
};

template <typename T> T make_handle(const plan &p)
{
    T *type = nullptr;

    switch (p.handles) {
    case WILD_HANDLE:
        return reinterpret_cast<T>(static_cast<intptr_t>(-1));
    case MADE_UP_HANDLE:
        return static_cast<T>(next_buffer());
    case STALE_HANDLE:
        return static_cast<T>(select(stale_handles, type));
    case FOREIGN_HANDLE:
        return reinterpret_cast<T>(std::is_same<T, CUevent>::value
                                       ? static_cast<void *>(live_handles.stream)
                                       : static_cast<void *>(live_handles.event));
    case LIVE_HANDLE:
        return static_cast<T>(select(live_handles, type));
    default:
        return nullptr;
    }
}

template <typename T, typename = void> struct argument {
    static T make(const plan &p) /* a struct by value */
    {
        T value;
        memset(&value, p.number < 0 ? 0xff : 0, sizeof(value));
        return value;
    }
};

template <typename T>
struct argument<T, typename std::enable_if<std::is_arithmetic<T>::value ||
                                           std::is_enum<T>::value>::type> {
    static T make(const plan &p)
    {
        return static_cast<T>(p.number);
    }
};

template <> struct argument<unsigned long long> {
    static unsigned long long make(const plan &p)
    {
        if (p.pointers == NO_DATA)
            return p.number < 0 ? UINT64_MAX : 0;
        return reinterpret_cast<uintptr_t>(next_buffer());
    }
};

template <typename T>
struct argument<T *, typename std::enable_if<std::is_function<T>::value>::type> {
    static T *make(const plan &p)
    {
        return p.pointers == NO_DATA ? nullptr : &quiet<T>::run;
    }
};

template <typename T>
struct argument<
    T *, typename std::enable_if<is_complete<T>::value || std::is_void<T>::value>::type> {
    static T *make(const plan &p)
    {
        return p.pointers == NO_DATA ? nullptr : static_cast<T *>(next_buffer());
    }
};

template <typename T>
struct argument<
    T *, typename std::enable_if<!is_complete<T>::value && !std::is_void<T>::value &&
                                 !std::is_function<T>::value>::type> {
    static T *make(const plan &p)
    {
        return make_handle<T *>(p);
    }
};

template <typename... A> CUresult call(CUresult (*function)(A...), nonsense kind)
{
    const plan &p = plans[kind];

    memset(buffers, 0, sizeof(buffers));
    buffers_used = 0;
    return function(argument<A>::make(p)...);
}

} // namespace

void nonsense_use(const nonsense_handles *live, const nonsense_handles *stale)
{
    live_handles = *live;
    stale_handles = *stale;
}

#define MODELLED(symbol) {#symbol, 1, [](nonsense kind) { return call(&symbol, kind); }},
#define UNMODELLED(symbol)                                                               \
    {#symbol, 0, [](nonsense kind) { return call(&symbol, kind); }},
#define GRAPHICS(symbol) /* not declared here */

const nonsense_function nonsense_functions[] = {
#if CUDA_VERSION >= 13000
#define SIM_SYMBOL(symbol, base, since, thread, state) state(symbol)
#include "../driver/symbols.def"
#undef SIM_SYMBOL
#endif
    {nullptr, 0, nullptr},
};
