// hold.d - leaks of a D program: from a function, and from a method of a template.
extern (C) int cudaMalloc(void** p, size_t n);

void take(size_t n)
{
    void* p;
    cudaMalloc(&p, n);
}

struct Pool(T)
{
    void grow(size_t n)
    {
        take(n * T.sizeof);
    }
}

void main()
{
    take(3 << 20);
    Pool!double pool;
    pool.grow(1 << 20);
}
