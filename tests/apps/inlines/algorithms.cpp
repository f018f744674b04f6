/*
 * algorithms.cpp - what the algorithms of the C++ library call: lambdas, objects with a
 * call operator, iterators with work in them.
 */
#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "take.h"

KEEP static void each(const std::vector<int> &sizes)
{
    std::for_each(sizes.begin(), sizes.end(), [](int mib) { take(mib); });
}

KEEP static void transformed(const std::vector<int> &sizes)
{
    std::vector<void *> blocks;
    std::transform(sizes.begin(), sizes.end(), std::back_inserter(blocks),
                   [](int mib) { return take(mib + 2); });
}

struct Sum {
    int operator()(int sum, int mib) const
    {
        take(mib + 4);
        return sum + mib;
    }
};
KEEP static int accumulated(const std::vector<int> &sizes)
{
    return std::accumulate(sizes.begin(), sizes.end(), 0, Sum());
}

KEEP static void sorted(std::vector<int> numbers)
{
    int calls = 0;
    std::sort(numbers.begin(), numbers.end(), [&calls](int a, int b) {
        if (calls++ == 0)
            take(7);
        return a < b;
    });
}

class Generator
{
    int mib_;

  public:
    explicit Generator(int mib) : mib_(mib)
    {
    }
    void *operator()()
    {
        return take(mib_++);
    }
};
KEEP static std::size_t generated(int mib)
{
    std::vector<void *> blocks;
    std::generate_n(std::back_inserter(blocks), 2, Generator(mib));
    return blocks.size();
}

int main()
{
    const std::vector<int> sizes = {1, 2};
    each(sizes);
    transformed(sizes);
    accumulated(sizes);
    sorted({3, 1, 2});
    return generated(8) != 2;
}
