/*
 * case_stream_default.c - the legacy default stream and the streams beside it: who waits
 * for whom. A stream is held by a kernel; what must go on is seen to complete while it is
 * held, what must wait is seen not to have completed and is judged by its data after.
 */
#include "work.h"

#define BEHAVIOUR "Stream synchronization behavior"

/* Two streams with a word each; `held` runs until it is let go. The word at 0 is set in
 * the held stream, behind the blocker, then copied to the word at 1 in the other one. */
struct scene {
    CUstream held, other;
    CUdeviceptr words;
    struct blocker blocker;
};

static bool set_scene(struct scene *scene, CUstream held, CUstream other)
{
    *scene = (struct scene){.held = held, .other = other, .words = new_words(4)};
    return scene->words && block_stream(&scene->blocker, held) &&
           CHECK_OK(set_word(held, scene->words, 7)) &&
           CHECK_OK(copy_word(other, scene->words + 4, scene->words));
}

/* The other stream's copy came after the held stream's set. */
static void check_waits(struct scene *scene)
{
    CHECK_CODE(cuStreamQuery(scene->other), CUDA_ERROR_NOT_READY);
    end_block(&scene->blocker);
    CHECK_OK(cuStreamSynchronize(scene->other));
    CHECK_EQUAL(word_at(scene->words, 1), 7);
    end_words(scene->words);
}

/* The other stream's copy came while the held one was held. */
static void check_goes_on(struct scene *scene)
{
    CHECK(completes(scene->other));
    CHECK_CODE(cuStreamQuery(scene->held), CUDA_ERROR_NOT_READY);
    end_block(&scene->blocker);
    CHECK_EQUAL(word_at(scene->words, 0), 7);
    CHECK_EQUAL(word_at(scene->words, 1), 0);
    end_words(scene->words);
}

CASE(default_stream, waits_for_blocking_streams, DRIVER_API, BEHAVIOUR,
     "When an action is taken in the legacy stream, the legacy stream first waits on all "
     "blocking streams")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, stream, CU_STREAM_LEGACY))
        check_waits(&scene);
}

CASE(default_stream, is_waited_for_by_blocking_streams, DRIVER_API, BEHAVIOUR,
     "The action is queued in the legacy stream, and then all blocking streams wait on "
     "the legacy stream")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, CU_STREAM_LEGACY, stream))
        check_waits(&scene);
}

CASE(default_stream, null_is_the_legacy_stream, DRIVER_API, BEHAVIOUR,
     "The default stream, used when 0 is passed as a stream, has legacy synchronization "
     "behavior unless it is configured otherwise")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, stream, NULL)) {
        CHECK_CODE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        check_waits(&scene);
    }
}

CASE(default_stream, does_not_wait_for_non_blocking_streams, DRIVER_API, BEHAVIOUR,
     "The legacy default stream synchronizes with all other streams in the same context "
     "except for non-blocking streams")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct scene scene;

    if (set_scene(&scene, stream, CU_STREAM_LEGACY))
        check_goes_on(&scene);
}

CASE(default_stream, does_not_hold_non_blocking_streams, DRIVER_API, "cuStreamCreate",
     "CU_STREAM_NON_BLOCKING: work running in the created stream may run concurrently "
     "with work in stream 0, with no implicit synchronization with it")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct scene scene;

    if (set_scene(&scene, CU_STREAM_LEGACY, stream))
        check_goes_on(&scene);
}

CASE(default_stream, blocking_streams_are_independent, DRIVER_API, BEHAVIOUR,
     "Explicitly created streams do not synchronize with other streams, but with the "
     "legacy default stream if both are used")
{
    STREAM held = new_stream(CU_STREAM_DEFAULT);
    STREAM other = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, held, other))
        check_goes_on(&scene);
}

CASE(default_stream, stands_between_blocking_streams, DRIVER_API, BEHAVIOUR,
     "k_1 in stream s, k_2 in the legacy stream, k_3 in a blocking stream: k_2 will "
     "block on k_1 and k_3 will block on k_2")
{
    STREAM first = new_stream(CU_STREAM_DEFAULT);
    STREAM last = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, first, CU_STREAM_LEGACY)) {
        CHECK_OK(copy_word(last, scene.words + 8, scene.words + 4));
        CHECK_CODE(cuStreamQuery(last), CUDA_ERROR_NOT_READY);
        end_block(&scene.blocker);
        CHECK_OK(cuStreamSynchronize(last));
        CHECK_EQUAL(word_at(scene.words, 2), 7);
        end_words(scene.words);
    }
}

CASE(default_stream, event_in_it_covers_blocking_streams, DRIVER_API, BEHAVIOUR,
     "When an action is taken in the legacy stream it first waits on all blocking "
     "streams: an event recorded in it covers their work")
{
    STREAM held = new_stream(CU_STREAM_DEFAULT);
    EVENT event = new_event();
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(cuEventRecord(event, NULL));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        CHECK(event_completes(event));
        end_block(&blocker);
    }
}

CASE(default_stream, event_in_it_leaves_non_blocking_streams, DRIVER_API, BEHAVIOUR,
     "The legacy default stream does not synchronize with non-blocking streams: an event "
     "recorded in it does not cover their work")
{
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(cuEventRecord(event, NULL));
        CHECK(event_completes(event));
        CHECK_CODE(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
}

CASE(default_stream, of_another_context, DRIVER_API, BEHAVIOUR,
     "The legacy default stream synchronizes with all other streams in the same context, "
     "and so not with those of another one")
{
    CUcontext other = new_context();
    CUstream held = new_stream(CU_STREAM_DEFAULT);
    CUdeviceptr words = 0;
    struct blocker blocker;

    if (!other) {
        end_stream(held);
        return;
    }
    CHECK_OK(cuCtxSetCurrent(other));
    words = new_words(1);
    CHECK_OK(set_word(NULL, words, 1)); /* whatever a first use takes is there */
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK_OK(cuCtxSetCurrent(the_context()));
    if (block_stream(&blocker, held)) {
        CHECK_OK(cuCtxSetCurrent(other));
        CHECK_OK(set_word(NULL, words, 7));
        CHECK(completes(NULL));
        CHECK_OK(cuCtxSetCurrent(the_context()));
        CHECK_CODE(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
    CHECK_OK(cuCtxSetCurrent(other));
    CHECK_EQUAL(word_at(words, 0), 7);
    end_words(words);
    CHECK_OK(cuCtxSetCurrent(the_context()));
    end_context(other);
    end_stream(held);
}

/* ---- per-thread default streams -------------------------------------------------- */

CASE(thread_stream, waits_for_the_legacy_stream, DRIVER_API, BEHAVIOUR,
     "The per-thread default stream is not a non-blocking stream and will synchronize "
     "with the legacy default stream if both are used in a program")
{
    struct scene scene;

    if (set_scene(&scene, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD))
        check_waits(&scene);
}

CASE(thread_stream, is_waited_for_by_the_legacy_stream, DRIVER_API, BEHAVIOUR,
     "The per-thread default stream is not a non-blocking stream and will synchronize "
     "with the legacy default stream if both are used in a program")
{
    struct scene scene;

    if (set_scene(&scene, CU_STREAM_PER_THREAD, CU_STREAM_LEGACY))
        check_waits(&scene);
}

CASE(thread_stream, is_independent_of_created_streams, DRIVER_API, BEHAVIOUR,
     "The per-thread default stream does not synchronize with other streams (just like "
     "explicitly created streams)")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    struct scene scene;

    if (set_scene(&scene, CU_STREAM_PER_THREAD, stream))
        check_goes_on(&scene);
}

struct other_thread {
    CUdeviceptr word;
    bool done;
};

static void work_on_own_stream(void *argument)
{
    struct other_thread *other = argument;

    CHECK_OK(set_word(CU_STREAM_PER_THREAD, other->word, 7));
    other->done = completes(CU_STREAM_PER_THREAD);
}

CASE(thread_stream, is_independent_of_other_threads, DRIVER_API, BEHAVIOUR,
     "The per-thread default stream is local to both the thread and the context, and "
     "does not synchronize with other streams: not with those of other threads")
{
    struct other_thread other = {new_words(1), false};
    struct blocker blocker;

    if (block_stream(&blocker, CU_STREAM_PER_THREAD)) {
        join_call(start_call(work_on_own_stream, &other));
        CHECK(other.done);
        CHECK_CODE(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
    CHECK_EQUAL(word_at(other.word, 0), 7);
    end_words(other.word);
}

static void query_own_stream(void *out)
{
    *(CUresult *)out = later()->stream_query_ptsz(NULL);
}

CASE(thread_stream, is_null_to_ptsz_functions, DRIVER_API, BEHAVIOUR,
     "Per-thread behavior is chosen per compilation unit: its functions (the _ptsz ones) "
     "take 0 for the per-thread default stream")
{
    struct blocker blocker;

    if (!CHECK(later()->stream_query_ptsz))
        return;
    if (block_stream(&blocker, CU_STREAM_PER_THREAD)) {
        CUresult theirs = CUDA_ERROR_UNKNOWN;
        CHECK_CODE(later()->stream_query_ptsz(NULL), CUDA_ERROR_NOT_READY);
        join_call(start_call(query_own_stream, &theirs));
        CHECK_OK(theirs);
        end_block(&blocker);
        CHECK_OK(later()->stream_query_ptsz(NULL));
    }
}

CASE(thread_stream, legacy_handle_to_ptsz_functions, DRIVER_API, "CU_STREAM_LEGACY",
     "Stream handle that can be passed to use an implicit stream with legacy "
     "synchronization behavior, whatever the function's variant")
{
    struct blocker blocker;

    if (!CHECK(later()->stream_query_ptsz))
        return;
    if (block_stream(&blocker, CU_STREAM_LEGACY)) {
        CHECK_CODE(later()->stream_query_ptsz(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(later()->stream_query_ptsz(CU_STREAM_LEGACY));
    }
}

CASE(thread_stream, id_by_ptsz_function, DRIVER_API, "cuStreamGetId",
     "CU_STREAM_PER_THREAD and the NULL handle of a per-thread function are the same "
     "stream")
{
    unsigned long long by_handle = 0, by_null = 1;

    if (!later()->stream_get_id || !later()->stream_get_id_ptsz) {
        skip("the driver has no cuStreamGetId");
        return;
    }
    CHECK_OK(later()->stream_get_id(CU_STREAM_PER_THREAD, &by_handle));
    CHECK_OK(later()->stream_get_id_ptsz(NULL, &by_null));
    CHECK_EQUAL(by_null, by_handle);
}

CASE(thread_stream, work_by_ptsz_function, DRIVER_API, BEHAVIOUR,
     "Work given to the NULL handle of a per-thread function runs in the per-thread "
     "default stream, behind what is there")
{
    DEVICE_WORDS words = new_words(1);
    EVENT event = new_event();
    struct blocker blocker;

    if (!CHECK(later()->memset_d32_async_ptsz && later()->event_record_ptsz)) {
        ;
    } else if (block_stream(&blocker, CU_STREAM_PER_THREAD)) {
        CHECK_OK(later()->memset_d32_async_ptsz(words, 7, 1, NULL));
        CHECK_OK(later()->event_record_ptsz(event, NULL));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK(event_completes(event));
        CHECK_EQUAL(word_at(words, 0), 7);
    }
}
