/*
 * options_idle.c - logs a line for each option that has no effect because of another one.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/settings/options_idle.h"

#include <string.h>

#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"

#define QUOTE_BYTES 200

/* An option, and why it has no effect. */
struct idle {
    const char *name;
    bool set, without;
    const char *why;
};

/* Logs an option without effect, as a variable of its own or as an item of a list. */
static void log_one(const struct gs_options *options, char *const *env,
                    const struct idle *idle, gs_options_idle_sink sink)
{
    const unsigned row = gs_option_row_of(idle->name);
    const struct gs_item *item = gs_item_of(row);
    char quote[QUOTE_BYTES], text[GS_OPTION_SIZE_BYTES], part[GS_ITEM_BYTES];
    const char *value = gs_options_given_text(env, idle->name), *name = idle->name;

    if (item) {
        name = gs_lists[item->list].name;
        value = gs_option_value_text(&gs_options_table[row], options, false, text);
        value = gs_item_write(item, value, part);
    }
    sink(name, gs_option_quote(value, strlen(value), quote, sizeof(quote)), idle->why);
}

void gs_options_log_idle(const struct gs_options *options, char *const *env,
                         gs_options_idle_sink sink)
{
    const bool on = options->enable;
    const bool untracked = on && !options->track, unpooled = on && !options->pool;
    const bool check = options->check_redzone_bytes || options->check_quarantine_bytes ||
                       options->check_fill != GS_CHECK_FILL_OFF;
    const bool pools =
        unpooled &&
        gs_list_is_meant(GS_LIST_pool, gs_options_given_text(env, "GPUSHIM_POOL"));
    const unsigned row = GS_OPTION_ROW_verify_us;
    char number[GS_OPTION_SIZE_BYTES];
    const char *us = gs_option_value_text(&gs_options_table[row], options, true, number);
    static const char no_blocks[] =
        "with GPUSHIM_POOL=off the driver serves each request";
    const struct idle all[] = {
        /* Options on which a person or a script relies, whatever else is off. */
        {"GPUSHIM_ERROR_EXITCODE", options->error_exitcode != 0, !on,
         "with GPUSHIM_ENABLE=off nothing is checked; the program ends with its own "
         "status"},
        {"GPUSHIM_ERROR_EXITCODE", options->error_exitcode != 0, untracked,
         "with GPUSHIM_TRACK=off nothing is checked; the program ends with its own "
         "status"},
        {"GPUSHIM_MEM_LIMIT", options->mem_limit != gs_share_percent(100), !on,
         "with GPUSHIM_ENABLE=off no memory is limited"},
        {"GPUSHIM_OUTPUT", options->output[0], !on,
         "with GPUSHIM_ENABLE=off there is no report; no file is written"},
        {"GPUSHIM_STATE_FILE", options->state_file[0], !on,
         "with GPUSHIM_ENABLE=off there is nothing to keep; no file is made"},
        {"GPUSHIM_METRICS_FILE", options->metrics_file[0], !on,
         "with GPUSHIM_ENABLE=off there is nothing to count; no file is written"},
        {"GPUSHIM_TRACE_FILE", options->trace_file[0], !on,
         "with GPUSHIM_ENABLE=off there is nothing to record; no file is made"},
        {"GPUSHIM_DUMP_SIGNAL", options->dump_signal[0], !on,
         "with GPUSHIM_ENABLE=off there is nothing to report; the signal is left as it "
         "is, and may end the program"},
        {"GPUSHIM_DUMP_SIGNAL", options->dump_signal[0], untracked,
         "with GPUSHIM_TRACK=off there is nothing to report; the signal is left as it "
         "is, and may end the program"},
        {"GPUSHIM_DUMP_ON_TERM", options->dump_on_term, untracked,
         "with GPUSHIM_TRACK=off there is no report"},
        {"GPUSHIM_STATE_FILE", options->state_file[0], untracked,
         "with GPUSHIM_TRACK=off there is nothing to keep; no file is made"},
        {"GPUSHIM_STATS_INTERVAL", options->stats_interval_ms != 0, untracked,
         "with GPUSHIM_TRACK=off there is nothing to sample"},
        {"GPUSHIM_METRICS_FILE", options->metrics_file[0], untracked,
         "with GPUSHIM_TRACK=off there is nothing to count; no file is written"},
        {"GPUSHIM_WRITE_SUPPRESSIONS", options->write_suppressions[0], untracked,
         "with GPUSHIM_TRACK=off there is no report; no rule is added"},
        {"GPUSHIM_LEAK_SCAN", options->leak_scan, untracked,
         "with GPUSHIM_TRACK=off there is nothing to search for"},
        {"GPUSHIM_CHECK_TRANSFERS", options->check_transfers, untracked,
         "with GPUSHIM_TRACK=off there is no report"},
        {"GPUSHIM_CHECK_CHURN", options->check_churn, untracked,
         "with GPUSHIM_TRACK=off there is no report"},
        {"GPUSHIM_OUTPUT_FILE", options->output_file[0], on && !options->output[0],
         "there is no GPUSHIM_OUTPUT; no file is written"},
        {"GPUSHIM_OUTPUT_INTERVAL", /* not one for both */
         options->output_interval_ms != 0 &&
             options->output_interval_ms != options->stats_interval_ms,
         on && !options->output[0], "there is no GPUSHIM_OUTPUT; no file is written"},
        {"GPUSHIM_TRACE_LIMIT", gs_options_given(env, "GPUSHIM_TRACE_LIMIT"),
         on && !options->trace_file[0], "there is no GPUSHIM_TRACE_FILE"},
        {"GPUSHIM_HOST_POOL", options->host_pool && pools, unpooled,
         "without device nothing comes from the pool"},
        {"GPUSHIM_MANAGED_POOL", options->managed_pool && pools && !options->host_pool,
         unpooled, "without device nothing comes from the pool"},
        {"GPUSHIM_POOL_SEGMENT", gs_options_given(env, "GPUSHIM_POOL_SEGMENT"), unpooled,
         no_blocks},
        {"GPUSHIM_POOL_SIZE_CLASSES", options->pool_size_classes[0], unpooled, no_blocks},
        {"GPUSHIM_POOL_CARVE", options->pool_carve == GS_CARVE_MODE_ON, unpooled,
         no_blocks},
        {"GPUSHIM_POOL_CACHE", gs_options_given(env, "GPUSHIM_POOL_CACHE"), unpooled,
         no_blocks},
        {"GPUSHIM_POOL_LIMIT", gs_options_given(env, "GPUSHIM_POOL_LIMIT"), unpooled,
         no_blocks},
        {"GPUSHIM_POOL_RELEASE", gs_options_given(env, "GPUSHIM_POOL_RELEASE"), unpooled,
         no_blocks},
        {"GPUSHIM_WARMUP", options->warmup[0], unpooled,
         "with GPUSHIM_POOL=off there are no blocks to allocate ahead"},
        {"GPUSHIM_PRESSURE", options->pressure[0], unpooled,
         "with GPUSHIM_POOL=off there is no idle memory to return"},
        {"GPUSHIM_MEM_LIMIT_MANAGED", options->mem_limit_managed,
         on && options->mem_limit == gs_share_percent(100) && !options->mem_group[0],
         "there is no GPUSHIM_MEM_LIMIT"},
        {"GPUSHIM_POOL_VMM", options->pool_vmm != GS_VMM_OFF, unpooled,
         "with GPUSHIM_POOL=off no memory is made of pages"},
        {"GPUSHIM_RELEASABLE", options->releasable[0], unpooled,
         "with GPUSHIM_POOL=off nothing can be released"},
        {"GPUSHIM_RELEASABLE", options->releasable[0], on && options->pool && check,
         "with a check of memory nothing can be released"},
        {"GPUSHIM_POOL_CARVE", options->pool_carve == GS_CARVE_MODE_ON,
         on && options->pool && options->pool_vmm == GS_VMM_ON,
         "with GPUSHIM_POOL_VMM=on requests share no driver allocations"},
        {"GPUSHIM_ASYNC", options->async == GS_ASYNC_POOL, unpooled,
         "with GPUSHIM_POOL=off the driver serves all memory"},
        /* If a check is on, its own line names the pool as well. */
        {"GPUSHIM_FREE_SYNC",
         options->free_sync == GS_FREE_SYNC_LAZY ||
             options->free_sync == GS_FREE_SYNC_VERIFY,
         unpooled && !check, "with GPUSHIM_POOL=off each free is the driver's"},
        {"GPUSHIM_FREE_SYNC", options->free_sync == GS_FREE_SYNC_VERIFY, untracked,
         "with GPUSHIM_TRACK=off there is no report; what is found is a warning"},
        {"GPUSHIM_VERIFY_US", strcmp(us, gs_options_table[row].fallback) != 0,
         on && options->free_sync != GS_FREE_SYNC_VERIFY,
         "GPUSHIM_FREE_SYNC is not verify"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
        if (all[i].set && all[i].without) {
            log_one(options, env, &all[i], sink);
        }
    }
}
