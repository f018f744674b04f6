/*
 * rows_call.c - goes through a table of calls.   See rows.h.
 *
 * No two calls of a run that keeps have one size, as a report writes it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"
#include "rows.h"

#define FIRST_PAGES 100 /* three digits tell one size from the next */

const struct app_peer *rows_exporter;

/* ---- what the calls are given ------------------------------------------------------
 */

int rows_file(size_t bytes)
{
    int file = memfd_create("exported", MFD_CLOEXEC);

    app_expect(file >= 0 && ftruncate(file, (off_t)bytes) == 0, "a file");
    return file;
}

void *rows_pages(size_t bytes)
{
    void *pages = aligned_alloc(ROWS_PAGE, bytes);

    app_expect(pages != NULL, "memory of the program's own");
    return pages;
}

CUmemoryPool rows_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;

    APP_OK(CU(cuMemPoolCreate)(&pool, &props));
    return pool;
}

void rows_launch(CUgraph graph)
{
    CUgraphExec exec;

    APP_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    APP_OK(CU(cuGraphLaunch)(exec, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuGraphExecDestroy)(exec));
    APP_OK(CU(cuGraphDestroy)(graph));
}

int rows_ask(enum rows_wish wish, size_t bytes, struct rows_offer *out)
{
    struct rows_request request = {wish, bytes};

    app_peer_send(rows_exporter, &request, sizeof(request), -1);
    return app_peer_receive(rows_exporter, out, sizeof(*out));
}

CUmemoryPool rows_import_pool(int file)
{
    CUmemoryPool pool;

    APP_OK(CU(cuMemPoolImportFromShareableHandle)(
        &pool, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(file);
    return pool;
}

/* ---- all of them -------------------------------------------------------------------
 */

static size_t bytes_of(const struct rows_table *table, const struct rows_maker *maker)
{
    size_t number = (size_t)(maker - table->makers);

    return maker->bytes == UNITS ? (1 + number % 16) * ROWS_UNIT
                                 : (FIRST_PAGES + number) * ROWS_PAGE;
}

/* One that stays: its call and size, the name and the standing that the report has. */
static void keep_one(const struct rows_table *table, const struct rows_maker *maker)
{
    struct rows_made made = {.bytes = bytes_of(table, maker)};

    app_check(maker->make(&made), maker->symbol, __FILE__, __LINE__);
    printf("rows: kept %s %zu %s %s\n", maker->symbol, made.bytes, maker->owner,
           maker->standing);
}

/* One for each call that can end it. */
static void end_all(const struct rows_table *table, const struct rows_maker *maker)
{
    int ends = 0;

    for (size_t i = 0; i < table->taker_count; i++) {
        const struct rows_taker *taker = &table->takers[i];
        struct rows_made made = {.bytes = bytes_of(table, maker)};

        if (!(taker->kinds & maker->kind) || table->is_left_out(taker->symbol))
            continue;
        app_check(maker->make(&made), maker->symbol, __FILE__, __LINE__);
        app_check(taker->take(&made), taker->symbol, __FILE__, __LINE__);
        APP_OK(CU(cuCtxSynchronize)());
        printf("rows: %s ended by %s\n", maker->symbol, taker->symbol);
        ends++;
    }
    app_expect(ends > 0, maker->symbol);
}

void rows_call(const struct rows_table *table, bool keep)
{
    for (size_t i = 0; i < table->maker_count; i++) {
        const struct rows_maker *maker = &table->makers[i];

        if (table->is_left_out(maker->symbol))
            continue;
        if (keep)
            keep_one(table, maker);
        else
            end_all(table, maker);
    }
    for (size_t i = 0; i < table->missing_count; i++)
        printf("rows: skip %s: %s\n", table->missing[i].symbol, table->missing[i].reason);
}

void rows_print(const struct rows_table *table)
{
    for (size_t i = 0; i < table->maker_count; i++)
        printf("%s makes\n", table->makers[i].symbol);
    for (size_t i = 0; i < table->taker_count; i++)
        printf("%s ends\n", table->takers[i].symbol);
    for (size_t i = 0; i < table->missing_count; i++)
        printf("%s skip\n", table->missing[i].symbol);
}
