/*
 * visitors.cpp - std::visit, std::apply, std::invoke, std::optional, overloaded lambdas.
 */
#include <functional>
#include <optional>
#include <tuple>
#include <variant>

#include "take.h"

struct Small {
    int mib;
};
struct Large {
    int mib;
    void *grow() const
    {
        return take(mib * 2);
    }
};
template <typename... Parts> struct Overloaded : Parts... {
    using Parts::operator()...;
};
template <typename... Parts> Overloaded(Parts...) -> Overloaded<Parts...>;

KEEP static void visited(const std::variant<Small, Large> &which)
{
    std::visit(Overloaded{[](const Small &small) { take(small.mib); },
                          [](const Large &large) { large.grow(); }},
               which);
}

KEEP static void applied(int mib)
{
    std::apply([](auto... sizes) { (take(sizes), ...); }, std::make_tuple(mib, mib + 1));
}

KEEP static void invoked(int mib)
{
    std::invoke(&Large::grow, Large{mib});
}

struct Lazy {
    std::optional<void *> block;
    void *get(int mib)
    {
        if (!block)
            block.emplace(take(mib));
        return *block;
    }
};
KEEP static bool optional(int mib)
{
    Lazy lazy;
    return lazy.get(mib) == lazy.get(mib);
}

int main()
{
    visited(Small{1});
    visited(Large{1});
    applied(3);
    invoked(3);
    return !optional(5);
}
