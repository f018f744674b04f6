/*
 * coroutines.cpp - coroutines of C++20, resumed by loops; the allocation stands in a
 * coroutine, and in what it calls.
 */
#include <coroutine>
#include <exception>
#include <utility>

#include "take.h"

class Generator
{
  public:
    struct promise_type {
        void *current = nullptr;
        Generator get_return_object()
        {
            return Generator(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend()
        {
            return {};
        }
        std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        std::suspend_always yield_value(void *value)
        {
            current = value;
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
    explicit Generator(std::coroutine_handle<promise_type> handle) : handle_(handle)
    {
    }
    Generator(const Generator &) = delete;
    ~Generator()
    {
        handle_.destroy();
    }
    bool next()
    {
        handle_.resume();
        return !handle_.done();
    }
    void *value() const
    {
        return handle_.promise().current;
    }

  private:
    std::coroutine_handle<promise_type> handle_;
};

static void *take_rounded(int mib)
{
    return take(mib | 1);
}

static Generator blocks(int mib, int count)
{
    for (int i = 0; i < count; i++) {
        if (i % 2 == 0)
            co_yield take(mib + i);
        else
            co_yield take_rounded(mib + i);
    }
}

KEEP static int drained(int mib)
{
    Generator generator = blocks(mib, 4);
    int found = 0;
    while (generator.next())
        found += generator.value() != nullptr;
    return found;
}

int main()
{
    return drained(1) != 4;
}
