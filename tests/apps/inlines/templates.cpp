/*
 * templates.cpp - templates within each other: a base that knows its derived class, packs
 * of arguments, policies, functions of compile-time values, operators.
 */
#include <array>
#include <cstddef>
#include <utility>

#include "take.h"

template <typename Derived> struct Base {
    void fill(int mib)
    {
        static_cast<Derived *>(this)->fill_one(mib);
    }
};
struct Leaf : Base<Leaf> {
    void *data = nullptr;
    void fill_one(int mib)
    {
        data = take(mib);
    }
};
KEEP void derived(int mib)
{
    Leaf leaf;
    leaf.fill(mib);
}

template <typename T> void each(T mib)
{
    take(mib);
}
template <typename First, typename... Rest> void each(First first, Rest... rest)
{
    each(first);
    each(rest...);
}
KEEP void packed(int mib)
{
    each(mib, short(mib + 1), static_cast<unsigned char>(mib + 2));
}

struct OnDevice {
    static void *get(int mib)
    {
        return take(mib);
    }
};
template <typename T, typename Policy> class Store
{
    std::array<void *, 2> blocks_{};

  public:
    template <std::size_t Number> void put(int mib)
    {
        std::get<Number>(blocks_) = Policy::get(mib + int(sizeof(T)));
    }
    explicit operator bool() const
    {
        return blocks_[0] != blocks_[1];
    }
};
KEEP bool stored(int mib)
{
    Store<std::pair<int, double>, OnDevice> store;
    store.put<0>(mib);
    store.put<1>(mib + 1);
    return bool(store);
}

template <int Depth> int descend(int mib)
{
    if constexpr (Depth == 0)
        return take(mib) != nullptr;
    else
        return descend<Depth - 1>(mib) + Depth;
}
KEEP int counted(int mib)
{
    return descend<5>(mib);
}

struct Size {
    int mib;
};
static Size operator+(Size a, Size b)
{
    take(a.mib + b.mib);
    return {a.mib + b.mib};
}
KEEP int added(int mib)
{
    return (Size{mib} + Size{1} + Size{2}).mib;
}

int main()
{
    derived(1);
    packed(2);
    stored(5);
    counted(7);
    added(8);
    return 0;
}
