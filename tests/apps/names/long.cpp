/*
 * long.cpp - functions with mangled names of 0.5, 1.1, 3 and 9 KiB, as expression
 * templates make them: libstdc++'s demangler takes none above 1,024 bytes.
 */
#include <cuda_runtime_api.h>
#include <utility>

template <typename P> struct Solver;
template <int... I> struct Solver<std::integer_sequence<int, I...>> {
    template <typename E> __attribute__((noinline)) static void allocate(E)
    {
        static void *p;
        cudaMalloc(&p, sizeof...(I) << 14);
        asm volatile("");
    }
};

int main()
{
    Solver<std::make_integer_sequence<int, 100>>::allocate(1);
    Solver<std::make_integer_sequence<int, 200>>::allocate(2.f);
    Solver<std::make_integer_sequence<int, 500>>::allocate(2.0);
    Solver<std::make_integer_sequence<int, 1400>>::allocate('c');
    return 0;
}
