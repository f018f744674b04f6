/*
 * words.c - order that goes through a word in memory: written by the host, by stream
 * memory operations, by copies and sets; waited for by streams and kernels.
 * Source: Driver API, "Stream Memory Operations".
 */

#include "order.h"

/* ---- words both can see ------------------------------------------------------------ */

PROGRAM(words, read_by_the_host, RIGHT,
        "the host saw what the device wrote behind its work")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();
    CUdeviceptr seen;

    OK(cuMemHostGetDevicePointer(&seen, words, 0));
    words[0] = 0;
    fill(a, memory, 10);
    OK(cuStreamWriteValue32(a, seen, 1, 0));
    while (__atomic_load_n(&words[0], __ATOMIC_ACQUIRE) == 0)
        nap_us(100);
    NOTE(.kind = CUDASIM_HOST_SAW, .address = (uintptr_t)words, .bytes = 4);
    copy(b, out, memory);
    must_hold(out, 10);
}

PROGRAM(words, written_by_the_host, RIGHT,
        "a persistent kernel is released behind a wait")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();

    words[0] = 0;
    wait_for(a, words);
    copy(a, out, memory);
    fill(b, memory, 11);
    OK(cuStreamSynchronize(b));
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    must_hold(out, 11);
}

PROGRAM(words, written_too_early, RACE, "it was released before that")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();

    words[0] = 0;
    wait_for(a, words);
    copy(a, out, memory);
    fill(b, memory, 11);
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

PROGRAM(words, written_and_then_waited, RACE, "what was waited for after the write")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();

    words[0] = 0;
    wait_for(a, words);
    copy(a, out, memory);
    fill(b, memory, 11);
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(b));
    OK(cuCtxSynchronize());
}

PROGRAM(words, written_between_waits, RIGHT, "what was waited for before it")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();

    words[0] = 0;
    OK(cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)words, 1, CU_STREAM_WAIT_VALUE_EQ));
    copy(a, out, memory);
    fill(b, memory, 11);
    OK(cuStreamSynchronize(b));
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    spin(c);
    OK(cuStreamSynchronize(c));
    must_hold(out, 11);
}

PROGRAM(words, between_streams, RIGHT, "one stream waits for what another writes")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    fill(b, memory, 12);
    OK(cuStreamWriteValue32(b, word, 1, 0));
    must_hold(out, 12);
}

PROGRAM(words, between_three_streams, RIGHT, "and a third waits for the second's")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 2));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    OK(cuStreamWaitValue32(b, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(b, word + 4, 1, 0));
    fill(c, memory, 13);
    OK(cuStreamWriteValue32(c, word, 1, 0));
    must_hold(out, 13);
}

PROGRAM(words, written_before_the_work, RACE,
        "the value was written in front of the work")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    OK(cuStreamWriteValue32(b, word, 1, 0));
    fill(b, memory, 12);
    OK(cuCtxSynchronize());
}

PROGRAM(words, other_work, RACE, "a value says nothing of streams that did not write it")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    fill(c, memory, 12);
    OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    OK(cuStreamWriteValue32(b, word, 1, 0));
    OK(cuCtxSynchronize());
}

/* ---- words written by copies and sets ---------------------------------------------- */

enum raiser { BY_COPY, BY_HOST_COPY, BY_SET };

/* Write 1 to the word, in the stream. */
static void raise_word(CUstream stream, CUdeviceptr word, enum raiser raiser)
{
    static const uint32_t one = 1;
    CUdeviceptr from;

    switch (raiser) {
    case BY_COPY:
        from = new_memory();
        OK(cuMemsetD32Async(from, 1, 1, stream));
        OK(cuMemcpyDtoDAsync(word, from, 4, stream));
        break;
    case BY_HOST_COPY:
        OK(cuMemcpyHtoDAsync(word, &one, 4, stream));
        break;
    case BY_SET:
        OK(cuMemsetD32Async(word, 1, 1, stream));
        break;
    }
}

/* One stream waits, in a kernel or by itself, for what the other raises: behind its work,
 * or in front of it. */
static CUdeviceptr wait_for_raised(enum raiser raiser, bool in_kernel, bool in_front)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    if (in_kernel)
        wait_for(a, (const uint32_t *)(uintptr_t)word);
    else
        OK(cuStreamWaitValue32(a, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy(a, out, memory);
    if (in_front)
        raise_word(b, word, raiser);
    fill(b, memory, 12);
    if (!in_front)
        raise_word(b, word, raiser);
    OK(cuCtxSynchronize());
    return out;
}

PROGRAM(words, raised_by_a_copy, RIGHT, "a kernel waits for what a copy writes")
{
    must_hold(wait_for_raised(BY_COPY, true, false), 12);
}

PROGRAM(words, raised_by_a_copy_from_the_host, RIGHT, "a stream for a copy of the host's")
{
    must_hold(wait_for_raised(BY_HOST_COPY, false, false), 12);
}

PROGRAM(words, raised_by_a_set, RIGHT, "a stream waits for what a set writes")
{
    must_hold(wait_for_raised(BY_SET, false, false), 12);
}

PROGRAM(words, raised_by_a_set_for_a_kernel, RIGHT, "and a kernel does")
{
    must_hold(wait_for_raised(BY_SET, true, false), 12);
}

PROGRAM(words, raised_before_the_work, RACE, "the copy was in front of the work")
{
    wait_for_raised(BY_COPY, true, true);
}

PROGRAM(words, set_before_the_work, RACE, "the set was in front of the work")
{
    wait_for_raised(BY_SET, false, true);
}

PROGRAM(words, raised_by_two, RACE, "two copies to the word have no order by that")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr word = new_memory();

    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    wait_for(a, (const uint32_t *)(uintptr_t)word);
    raise_word(b, word, BY_SET);
    raise_word(c, word, BY_SET);
    OK(cuCtxSynchronize());
}

PROGRAM(words, raised_among_others, RACE, "a wide set is no write of one word")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr word = new_memory();

    OK(cuMemsetD32(word, 0, WORDS));
    OK(cuCtxSynchronize());
    wait_for(a, (const uint32_t *)(uintptr_t)word);
    OK(cuMemsetD32Async(word, 1, WORDS, b));
    OK(cuCtxSynchronize());
}

/* ---- words of eight bytes ---------------------------------------------------------- */

/* A stream waits for both halves, which two streams raise: behind their work, or one of
 * them in front of it. */
static void wait_for_halves(bool in_front)
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr low = new_memory(), high = new_memory(), word = new_memory();
    CUdeviceptr low_out = new_memory(), high_out = new_memory();

    OK(cuMemsetD32(word, 0, 2));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue64(a, word, 0x100000001u, CU_STREAM_WAIT_VALUE_EQ));
    copy(a, low_out, low);
    copy(a, high_out, high);
    fill(b, low, 12);
    OK(cuStreamWriteValue32(b, word, 1, 0));
    if (in_front)
        raise_word(c, word + 4, BY_SET);
    fill(c, high, 13);
    if (!in_front)
        raise_word(c, word + 4, BY_SET);
    OK(cuCtxSynchronize());
    if (in_front)
        return;
    must_hold(low_out, 12);
    must_hold(high_out, 13);
}

PROGRAM(words, raised_in_halves, RIGHT, "who waits for both is behind both")
{
    wait_for_halves(false);
}

PROGRAM(words, half_raised_before_the_work, RACE, "one half was raised too early")
{
    wait_for_halves(true);
}
