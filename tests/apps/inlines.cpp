/*
 * inlines.cpp - memory that functions allocate which the compiler inlines: constructors,
 * lambdas, templates, recursion, static functions, in and out of the C++ library.
 *
 * Each way leaks a size of its own, in MiB, from one place. The functions named in the
 * comments are those that a debugger shows, the innermost first; the test finds lines by
 * what stands behind AT.
 */
#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "inlines.h"

/* 1: Buffer::Buffer, make_buffer */
struct Buffer {
    void *data;
    explicit Buffer(int mib)
    {
        data = inlines_take(mib); /* AT constructor */
    }
};
KEEP Buffer make_buffer(int mib)
{
    Buffer buffer(mib); /* AT buffer */
    return buffer;
}

/* 2: Store<...>::put, fill_store */
template <typename T> struct Store {
    std::vector<T> items;
    void put(int mib)
    {
        inlines_take(mib); /* AT put */
        items.clear();
    }
};
KEEP void fill_store(int mib)
{
    Store<std::vector<std::pair<std::string, std::string>>> store;
    store.put(mib);
}

/* 3: a lambda, call_function */
KEEP void call_function(int mib)
{
    std::function<void(int)> function = [&mib](int more) {
        inlines_take(mib + more); /* AT lambda */
    };
    function(0); /* AT function */
}

/* 4: descend, in itself, start_descent */
struct Level {
    const Level *up;
    int depth;
};
static int descend(const Level *up, int mib)
{
    Level here = {up, up->depth - 1};
    if (here.depth == 0)
        return inlines_take(mib) != nullptr;
    return descend(&here, mib) ^ here.depth;
}
KEEP int start_descent(int mib)
{
    Level top = {nullptr, mib + 4};
    return descend(&top, mib);
}

/* 5: a method of a class without linkage, hidden_owner */
namespace
{
struct Hidden {
    void *data = nullptr;
    void operator()(int mib)
    {
        data = inlines_take(mib);
    }
};
} // namespace
KEEP void hidden_owner(int mib)
{
    Hidden hidden;
    hidden(mib);
}

/* 6: Buffer::Buffer in what std::vector calls, grow_vector */
KEEP size_t grow_vector(int mib)
{
    std::vector<Buffer> buffers;
    buffers.emplace_back(mib);
    return buffers.size();
}

/* 7: a lambda in std::sort, with functions of the C++ library on both sides */
KEEP int sort_numbers(int mib)
{
    std::vector<int> numbers = {3, 1, 2};
    bool first = true;
    std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
        if (first)
            inlines_take(mib);
        first = false;
        return a < b;
    });
    return numbers[0];
}

/* 8: a virtual function that calls an inlined one, in std::call_once */
struct Base {
    virtual ~Base() = default;
    virtual void load(int mib) = 0;
};
struct Loader : Base {
    static void take_more(int mib)
    {
        inlines_take(mib);
    }
    void load(int mib) override
    {
        take_more(mib);
    }
};
KEEP void load_once(int mib)
{
    static std::once_flag once;
    std::unique_ptr<Base> loader(new Loader);
    std::call_once(once, [&] { loader->load(mib); });
}

/* 9: nothing but the lambda, on a thread */
KEEP void start_thread_of(int mib)
{
    std::thread([mib] { inlines_take(mib); }).join();
}

/* 10: Worker::run, as a task on a thread */
struct Worker {
    int factor;
    void run(int mib) const
    {
        inlines_take(mib * factor);
    }
};
KEEP void start_task(int mib)
{
    Worker worker = {1};
    std::async(std::launch::async, &Worker::run, &worker, mib).get();
}

int main()
{
    make_buffer(1);
    fill_store(2);
    call_function(3);
    start_descent(4);
    hidden_owner(5);
    grow_vector(6);
    sort_numbers(7);
    load_once(8);
    start_thread_of(9);
    start_task(10);
    inlines_c(11); /* in inlines_part.c */
    return 0;
}
