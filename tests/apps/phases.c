/*
 * phases.c - a program that marks its phases with NVTX, as NVIDIA's headers do it, and
 * loses memory in each of them.
 *
 *   phases_WAY            ranges of each kind; prints what NVTX answers
 *   phases_WAY random N   N random calls in three domains; prints "BYTES SCOPE" of each
 *                         loss
 *   phases_WAY deep       more ranges than scopes can nest, and ends without a range
 *   phases_WAY threads    a range in each of four threads
 *   phases_WAY clean      two ranges, whose memory is freed
 */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

APP_FRAME static void lose(size_t bytes)
{
    gpu_ptr memory;
    APP_OK(gpu_malloc(&memory, bytes));
}

static int push_event(nvtxDomainHandle_t domain, int type, const void *message)
{
    nvtxEventAttributes_t event;
    memset(&event, 0, sizeof(event));
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = type;
    memcpy(&event.message, &message, sizeof(message));
    return domain ? nvtxDomainRangePushEx(domain, &event) : nvtxRangePushEx(&event);
}

static void each_kind(void)
{
    int answers[12], n = 0;
    char longest[201];

    answers[n++] = nvtxRangePushA("early");
    app_gpu_start();
    lose(1000);
    answers[n++] = nvtxRangePushW(L"schritt/gr\u00f6\u00dfe \U0001f600");
    lose(2000);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
    nvtxStringHandle_t text = nvtxDomainRegisterStringW(domain, L"registered");
    answers[n++] = push_event(domain, NVTX_MESSAGE_TYPE_REGISTERED, text);
    lose(3000);
    answers[n++] = nvtxRangePop(); /* not the innermost of the thread */
    lose(4000);
    answers[n++] = push_event(NULL, NVTX_MESSAGE_TYPE_ASCII, "forward");
    lose(5000);
    answers[n++] = nvtxRangePop();
    answers[n++] = nvtxDomainRangePop(domain);
    lose(6000);
    memset(longest, 'x', 200);
    longest[200] = '\0';
    answers[n++] = nvtxRangePushA(longest);
    lose(7000);
    answers[n++] = nvtxRangePop();
    answers[n++] = push_event(NULL, NVTX_MESSAGE_UNKNOWN, NULL);
    lose(8000);
    answers[n++] = nvtxRangePop();
    answers[n++] = nvtxRangePop();
    lose(9000);
    for (int i = 0; i < n; i++)
        printf("%d%c", answers[i], i + 1 < n ? ' ' : '\n');
}

static void at_random(unsigned count)
{
    static const char *const names[] = {"load", "step", "forward", "backward", "update"};
    nvtxDomainHandle_t domains[3] = {NULL, nvtxDomainCreateA("one"),
                                     nvtxDomainCreateW(L"two")};
    struct {
        unsigned domain;
        const char *name;
    } open[12];
    unsigned depth = 0;

    app_gpu_start();
    for (unsigned i = 0; i < count; i++) {
        unsigned domain = (unsigned)rand() % 3, at;

        if (depth < 12 && rand() % 5 < 2) {
            open[depth].domain = domain;
            open[depth].name = names[rand() % 5];
            if (domain)
                push_event(domains[domain], NVTX_MESSAGE_TYPE_ASCII, open[depth].name);
            else
                nvtxRangePushA(open[depth].name);
            depth++;
        } else if (rand() % 2) {
            if (domain)
                nvtxDomainRangePop(domains[domain]);
            else
                nvtxRangePop();
            for (at = depth; at > 0 && open[at - 1].domain != domain; at--)
                ;
            if (at > 0) {
                memmove(&open[at - 1], &open[at], (depth - at) * sizeof(open[0]));
                depth--;
            }
        } else {
            lose(1000 + 8 * i);
            printf("%u ", 1000 + 8 * i);
            for (at = 0; at < depth; at++)
                printf("%s%s", at ? "/" : "", open[at].name);
            puts(depth ? "" : "-");
        }
    }
}

static void deep(void)
{
    char name[8];

    app_gpu_start();
    nvtxRangePop();
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "%d", i);
        nvtxRangePushA(name);
    }
    lose(1000);
    for (int i = 0; i < 39; i++)
        nvtxRangePop();
    lose(2000);
    for (int i = 0; i < 5; i++)
        nvtxRangePop();
    lose(3000);
}

static void clean(void)
{
    gpu_ptr memory;

    app_gpu_start();
    nvtxRangePushA("early");
    nvtxRangePushA("forward");
    APP_OK(gpu_malloc(&memory, 6000));
    APP_OK(gpu_free(memory));
    nvtxRangePop();
    nvtxRangePop();
}

static void *in_thread(void *number)
{
    char name[16];

    app_gpu_thread();
    snprintf(name, sizeof(name), "thread %zu", (size_t)number);
    nvtxRangePushA(name);
    lose(1000 * ((size_t)number + 1));
    nvtxRangePop();
    lose(1);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "random") == 0) {
        srand((unsigned)atoi(argv[2]));
        at_random((unsigned)atoi(argv[2]));
    } else if (argc > 1 && strcmp(argv[1], "deep") == 0) {
        deep();
    } else if (argc > 1 && strcmp(argv[1], "clean") == 0) {
        clean();
    } else if (argc > 1) {
        pthread_t threads[4];

        app_gpu_start();
        for (size_t i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, in_thread, (void *)i);
        for (size_t i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    } else {
        each_kind();
    }
    return 0;
}
