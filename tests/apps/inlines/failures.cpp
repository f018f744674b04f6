/*
 * failures.cpp - allocations where exceptions pass: in handlers, in destructors of a
 * stack that is unwound, in constructors that fail, behind noexcept.
 */
#include <stdexcept>

#include "take.h"

struct Guard {
    int mib;
    ~Guard()
    {
        take(mib);
    }
};
struct Fragile {
    void *data;
    explicit Fragile(int mib)
    try : data(take(mib)) {
        if (data)
            throw std::runtime_error("as planned");
    } catch (const std::runtime_error &) {
        take(mib + 1);
        throw;
    }
};
static void failing(int mib)
{
    Guard guard = {mib};
    if (guard.mib > 0)
        throw std::out_of_range("as planned");
}
static int steady(int mib) noexcept
{
    return take(mib) != nullptr;
}

KEEP static int unwound(int mib)
{
    try {
        failing(mib);
    } catch (const std::logic_error &) {
        return steady(mib + 1);
    }
    return 0;
}

KEEP static int constructed(int mib)
{
    try {
        return Fragile(mib).data != nullptr;
    } catch (const std::exception &) {
        return steady(mib + 2);
    }
}

int main()
{
    return unwound(1) + constructed(3) != 2;
}
