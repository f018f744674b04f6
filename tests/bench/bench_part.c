/*
 * bench_part.c - a library that allocates, of which bench_growth loads many copies.
 * Owns: nothing.   Lock: none.
 */
static volatile unsigned sink;

__attribute__((visibility("default"))) void
bench_part(unsigned long long (*allocate)(unsigned long));
void bench_part(unsigned long long (*allocate)(unsigned long))
{
    allocate(512);
    sink++;
}
