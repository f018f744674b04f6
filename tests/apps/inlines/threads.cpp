/*
 * threads.cpp - lambdas on threads: of std::thread, std::async and std::packaged_task,
 * lambdas in lambdas, generic ones, members by pointer.
 */
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "take.h"

KEEP static void on_a_thread(int mib)
{
    std::thread thread([mib] {
        auto inner = [mib](auto more) { return take(mib + more); };
        inner(1);
    });
    thread.join();
}

KEEP static void on_several(int mib)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([i, mib] { take(mib + i); });
    for (std::thread &thread : threads)
        thread.join();
}

KEEP static void asynchronous(int mib)
{
    auto later = std::async(
        std::launch::async, [](int size) { return take(size); }, mib);
    auto now = std::async(std::launch::deferred, [=] { return take(mib + 1); });
    later.get();
    now.get();
}

KEEP static void packaged(int mib)
{
    std::packaged_task<void *(int)> task([](int size) { return take(size); });
    auto result = task.get_future();
    std::thread(std::move(task), mib).join();
    result.get();
}

struct Worker {
    void *data = nullptr;
    void run(int mib)
    {
        data = take(mib);
    }
};

KEEP static void by_member(int mib)
{
    Worker worker;
    std::thread(&Worker::run, &worker, mib).join();
    std::function<void(int)> bound =
        std::bind(&Worker::run, &worker, std::placeholders::_1);
    bound(mib + 1);
}

int main()
{
    on_a_thread(1);
    on_several(3);
    asynchronous(6);
    packaged(8);
    by_member(9);
    return 0;
}
