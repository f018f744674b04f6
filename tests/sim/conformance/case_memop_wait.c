/*
 * case_memop_wait.c - stream memory operations: waits for a word of pinned memory, and
 * the conditions they wait for.
 */
#include "work.h"

static bool has_memops(void)
{
    if (later()->wait_value32 && later()->write_value32)
        return true;
    skip("the driver has no second form of stream memory operations");
    return false;
}

/* A stream waits for a pinned word, which is `start` now, to meet a condition; it does
 * when the word is `end`, and it is not met before. */
static void check_wait(uint32_t start, uint32_t end, uint32_t value, unsigned flags)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(2);

    if (pinned) {
        __atomic_store_n(&pinned[0], start, __ATOMIC_RELEASE);
        CHECK_OK(later()->wait_value32(stream, seen(pinned), value, flags));
        CHECK_OK(set_word(stream, seen(&pinned[1]), 7));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(__atomic_load_n(&pinned[1], __ATOMIC_ACQUIRE), 0);
        __atomic_store_n(&pinned[0], end, __ATOMIC_RELEASE);
        CHECK(completes(stream));
        CHECK_EQUAL(pinned[1], 7);
    }
    CHECK_OK(cuStreamSynchronize(stream));
}

/* The condition is met from the start. */
static void check_met(uint32_t word, uint32_t value, unsigned flags)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);

    if (pinned) {
        __atomic_store_n(pinned, word, __ATOMIC_RELEASE);
        CHECK_OK(later()->wait_value32(stream, seen(pinned), value, flags));
        if (!CHECK(completes(stream))) {
            /* whatever it waits for, one of these is it */
            __atomic_store_n(pinned, value, __ATOMIC_RELEASE);
            if (!completes(stream))
                __atomic_store_n(pinned, 0, __ATOMIC_RELEASE);
        }
    }
    CHECK_OK(cuStreamSynchronize(stream));
}

CASE(memop, wait_holds_the_stream, DRIVER_API, "cuStreamWaitValue32",
     "Work ordered after the operation will block until the given condition on the "
     "memory is satisfied; by default (int32_t)(*addr - value) >= 0")
{
    if (has_memops())
        check_wait(4, 5, 5, CU_STREAM_WAIT_VALUE_GEQ);
}

CASE(memop, wait_by_default_is_met_above, DRIVER_API, "cuStreamWaitValue32",
     "By default, the condition is to wait for (int32_t)(*addr - value) >= 0")
{
    if (has_memops()) {
        check_met(5, 5, CU_STREAM_WAIT_VALUE_GEQ);
        check_met(6, 5, CU_STREAM_WAIT_VALUE_GEQ);
    }
}

CASE(memop, wait_by_default_is_cyclic, DRIVER_API, "cuStreamWaitValue32",
     "(int32_t)(*addr - value) >= 0 is a cyclic greater-or-equal")
{
    if (has_memops()) {
        check_met(1, UINT32_MAX, CU_STREAM_WAIT_VALUE_GEQ);
        check_wait(UINT32_MAX, 0, 0, CU_STREAM_WAIT_VALUE_GEQ);
    }
}

CASE(memop, wait_for_equality, DRIVER_API, "CUstreamWaitValue_flags",
     "CU_STREAM_WAIT_VALUE_EQ: wait until *addr == value")
{
    if (has_memops()) {
        check_met(5, 5, CU_STREAM_WAIT_VALUE_EQ);
        check_wait(6, 5, 5, CU_STREAM_WAIT_VALUE_EQ);
    }
}

CASE(memop, wait_for_bits, DRIVER_API, "CUstreamWaitValue_flags",
     "CU_STREAM_WAIT_VALUE_AND: wait until (*addr & value) != 0")
{
    if (has_memops()) {
        check_met(6, 2, CU_STREAM_WAIT_VALUE_AND);
        check_wait(5, 7, 2, CU_STREAM_WAIT_VALUE_AND);
    }
}

CASE_WHERE(has_memops, memop, wait_for_missing_bits, DRIVER_API,
           "CUstreamWaitValue_flags",
           "CU_STREAM_WAIT_VALUE_NOR: wait until ~(*addr | value) != 0, where the device "
           "supports it")
{
    if (!device_has(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
                    "the device has no CU_STREAM_WAIT_VALUE_NOR"))
        return;
    check_met(0xffff0000u, 0xff00u, CU_STREAM_WAIT_VALUE_NOR);
    check_wait(0xffff0000u, 0xff000000u, 0x0000ffffu, CU_STREAM_WAIT_VALUE_NOR);
}

static bool has_64_bits(void)
{
    if (!has_memops())
        return false;
    if (device_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
        return true;
    skip("the device has no 64-bit stream memory operations");
    return false;
}

CASE_WHERE(has_64_bits, memop, wait_of_64_bits, DRIVER_API, "cuStreamWaitValue64",
           "By default, the condition is to wait for (int64_t)(*addr - value) >= 0")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    uint64_t *pinned = (uint64_t *)(void *)new_pinned(2);

    if (pinned) {
        __atomic_store_n(pinned, 0xffffffffu, __ATOMIC_RELEASE);
        CHECK_OK(later()->wait_value64(stream, seen((uint32_t *)(void *)pinned),
                                       0x100000000u, CU_STREAM_WAIT_VALUE_GEQ));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        __atomic_store_n(pinned, 0x100000000u, __ATOMIC_RELEASE);
        CHECK(completes(stream));
    }
    CHECK_OK(cuStreamSynchronize(stream));
    end_pinned((uint32_t *)(void *)pinned);
}

/* ---- writes ---------------------------------------------------------------------- */

CASE_WHERE(has_memops, memop, write_in_turn, DRIVER_API, "cuStreamWriteValue32",
           "Write a value to memory, in the order of the stream")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(set_word(stream, words, 1));
        CHECK_OK(later()->write_value32(stream, words, 0xfedcba98u, 0));
        CHECK_OK(copy_word(stream, words + 4, words));
        CHECK_OK(set_word(stream, words, 2));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 0), 2);
        CHECK_EQUAL(word_at(words, 1), 0xfedcba98u);
    }
}

CASE_WHERE(has_64_bits, memop, write_of_64_bits, DRIVER_API, "cuStreamWriteValue64",
           "Write a value to memory")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(4);

    CHECK_OK(later()->write_value64(stream, words + 8, 0x123456789abcdef0u, 0));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 0) | word_at(words, 1), 0);
    CHECK_EQUAL(word_at(words, 2), 0x9abcdef0u);
    CHECK_EQUAL(word_at(words, 3), 0x12345678u);
}

CASE_WHERE(
    has_memops, memop, one_stream_lets_another_go, DRIVER_API, "cuStreamWaitValue32",
    "A value written by a stream memory operation satisfies a wait in another stream")
{
    STREAM waiting = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM writing = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);

    CHECK_OK(later()->wait_value32(waiting, seen(pinned), 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK_CODE(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    CHECK_OK(later()->write_value32(writing, seen(pinned), 1, 0));
    CHECK(completes(writing));
    if (!CHECK(completes(waiting)))
        __atomic_store_n(pinned, 1, __ATOMIC_RELEASE);
    CHECK_OK(cuStreamSynchronize(waiting));
}

/* ---- batches --------------------------------------------------------------------- */

static CUstreamBatchMemOpParams wait_op(CUdeviceptr address, uint32_t value)
{
    CUstreamBatchMemOpParams op = {.waitValue = {.flags = CU_STREAM_WAIT_VALUE_GEQ}};

    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = address;
    op.waitValue.value = value;
    return op;
}

static CUstreamBatchMemOpParams write_op(CUdeviceptr address, uint32_t value)
{
    CUstreamBatchMemOpParams op = {.writeValue = {.flags = 0}};

    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = address;
    op.writeValue.value = value;
    return op;
}

CASE(memop, batch_in_order, DRIVER_API, "cuStreamBatchMemOp",
     "The operations are enqueued in the order they appear in the array")
{
    if (!has_memops() || !CHECK(later()->batch_mem_op))
        return;
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(3);

    if (pinned) {
        CUstreamBatchMemOpParams ops[] = {write_op(seen(&pinned[1]), 5),
                                          wait_op(seen(&pinned[0]), 1),
                                          write_op(seen(&pinned[2]), 6)};
        CHECK_OK(later()->batch_mem_op(stream, GS_ARRAY_LEN(ops), ops, 0));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(__atomic_load_n(&pinned[2], __ATOMIC_ACQUIRE), 0);
        __atomic_store_n(&pinned[0], 1, __ATOMIC_RELEASE);
        CHECK(completes(stream));
        CHECK_EQUAL(pinned[1], 5);
        CHECK_EQUAL(pinned[2], 6);
    }
    CHECK_OK(cuStreamSynchronize(stream));
}

CASE(memop, batch_limits, DRIVER_API, "cuStreamBatchMemOp",
     "count must be less than 256; flags are reserved and must be 0")
{
    static CUstreamBatchMemOpParams many[300];

    if (!has_memops() || !CHECK(later()->batch_mem_op))
        return;
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);

    for (size_t i = 0; i < GS_ARRAY_LEN(many); i++)
        many[i] = write_op(words, 7);
    CHECK_INVALID(later()->batch_mem_op(stream, GS_ARRAY_LEN(many), many, 0));
    CHECK_INVALID(later()->batch_mem_op(stream, 1, many, 1));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 0), 0);
    CHECK_OK(later()->batch_mem_op(stream, 255, many, 0));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 0), 7);
}

CASE(memop, batch_of_unknown_operations, DRIVER_API, "cuStreamBatchMemOp",
     "See CUstreamBatchMemOpType for the full set of supported operations")
{
    if (!has_memops() || !CHECK(later()->batch_mem_op))
        return;
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    CUstreamBatchMemOpParams op = write_op(words, 7);

    op.operation = (CUstreamBatchMemOpType)77;
    CHECK(later()->batch_mem_op(stream, 1, &op, 0) != CUDA_SUCCESS);
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 0), 0);
}

CASE_WHERE(
    has_memops, memop, captured_as_a_node, DRIVER_API, "CUgraphNodeType",
    "CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: batch memory operation node; a captured write "
    "happens when the graph is launched")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(later()->write_value32(stream, words, 7, 0));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        if (graph)
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP), 1);
        CHECK_EQUAL(word_at(words, 0), 0);
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 0), 7);
    }
}
