/*
 * case_order_stream.c - work of one stream runs in the order it was given, whatever its
 * kind. Everything is enqueued behind a kernel that is held, so that nothing has started
 * when the last of it is enqueued.
 */
#include "work.h"

#define STREAMS "Asynchronous Concurrent Execution, Streams"

CASE(order, sets_and_copies, GUIDE, STREAMS,
     "A stream is a sequence of commands that execute in order: sets and copies")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(4);
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        for (uint32_t i = 1; i < 4; i++) {
            CHECK_OK(set_word(stream, words, 10 * i));
            CHECK_OK(copy_word(stream, words + 4 * i, words));
        }
        end_block(&blocker);
        for (uint32_t i = 1; i < 4; i++)
            CHECK_EQUAL(word_at(words, i), 10 * i);
    }
}

CASE(order, kernels, GUIDE, STREAMS,
     "A stream is a sequence of commands that execute in order: kernels")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(4);
    struct blocker blocker;

    put_word(words, 1);
    if (block_stream(&blocker, stream)) {
        /* 1 -> word 1; doubled -> word 2; doubled -> word 3 */
        for (unsigned i = 1; i < 4; i++) {
            CHECK_OK(copy_words(stream, words + 4 * i, words, 1));
            CHECK_OK(add_words(stream, words, words + 4 * i, 1));
        }
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 0), 8);
        CHECK_EQUAL(word_at(words, 1), 1);
        CHECK_EQUAL(word_at(words, 2), 2);
        CHECK_EQUAL(word_at(words, 3), 4);
    }
}

CASE(order, kernels_among_copies, GUIDE, STREAMS,
     "A stream is a sequence of commands that execute in order: kernels between copies "
     "in both directions")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    PINNED *pinned = new_pinned(2);
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        pinned[0] = 20;
        CHECK_OK(cuMemcpyHtoDAsync(words, &pinned[0], 4, stream));
        CHECK_OK(add_words(stream, words, words, 1));
        CHECK_OK(cuMemcpyDtoHAsync(&pinned[1], words, 4, stream));
        CHECK_OK(set_word(stream, words, 1));
        end_block(&blocker);
        CHECK_EQUAL(pinned[1], 40);
        CHECK_EQUAL(word_at(words, 0), 1);
    }
}

CASE(order, nothing_overtakes_a_kernel, GUIDE, STREAMS,
     "Commands of a stream execute in order: nothing behind a kernel starts before it "
     "ends")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(2);
    DEVICE_WORDS words = new_words(1);
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        pinned[0] = 5;
        CHECK_OK(cuMemcpyDtoHAsync(&pinned[0], words, 4, stream));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(__atomic_load_n(&pinned[0], __ATOMIC_ACQUIRE), 5);
        end_block(&blocker);
        CHECK_EQUAL(pinned[0], 0);
    }
}

CASE(order, source_is_read_in_turn, GUIDE, STREAMS,
     "An asynchronous copy from pinned memory takes place when its turn in the stream "
     "comes: it reads what is there then")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    DEVICE_WORDS words = new_words(1);
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        pinned[0] = 1;
        CHECK_OK(cuMemcpyHtoDAsync(words, pinned, 4, stream));
        __atomic_store_n(&pinned[0], 2, __ATOMIC_RELEASE);
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 0), 2);
    }
}

CASE(order, streams_are_concurrent, GUIDE, STREAMS,
     "Different streams may execute their commands out of order with respect to one "
     "another or concurrently")
{
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(set_word(held, words, 1));
        CHECK_OK(set_word(other, words + 4, 2));
        CHECK_OK(add_words(other, words + 4, words + 4, 1));
        CHECK(completes(other));
        CHECK_CODE(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 0), 1);
        CHECK_EQUAL(word_at(words, 1), 4);
    }
}

CASE(order, two_held_streams_end_apart, GUIDE, STREAMS,
     "Different streams may execute their commands out of order with respect to one "
     "another: the one that is let go first completes first")
{
    STREAM one = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM two = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker first, second;

    if (block_stream(&first, one) && block_stream(&second, two)) {
        unblock(&second);
        CHECK(completes(two));
        CHECK_CODE(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
        end_block(&first);
        end_block(&second);
    }
}
