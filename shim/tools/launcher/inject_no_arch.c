/*
 * inject_no_arch.c - what inject_x86_64.c has, for other architectures: nothing is called
 * but gs_arch_refuse.
 *
 * Owns: nothing.   Lock: none.
 */
#if !defined(__x86_64__)
#include "shim/tools/launcher/inject_parts.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

const char *gs_arch_refuse(void)
{
    return "attaching is not supported yet on this architecture";
}

uint64_t gs_arch_pc(const struct user_regs_struct *regs)
{
    return 0;
}

uint64_t gs_arch_stack(const struct user_regs_struct *regs)
{
    return 0;
}

uint64_t gs_arch_tls(const struct user_regs_struct *regs)
{
    return 0;
}

bool gs_arch_is_native(const struct user_regs_struct *regs)
{
    return false;
}

uint64_t gs_arch_result(const struct user_regs_struct *regs)
{
    return 0;
}

long gs_arch_call(const struct user_regs_struct *regs)
{
    return 0;
}

uint64_t gs_arch_argument(const struct user_regs_struct *regs, unsigned index)
{
    return 0;
}

enum gs_call_kind gs_arch_call_kind(long number)
{
    return GS_CALL_OTHER;
}

long gs_arch_restarted(const struct gs_target *target, long number, uint64_t pc)
{
    return 0;
}

bool gs_arch_keep_waiting(struct user_regs_struct *regs)
{
    return false;
}

bool gs_arch_cut_read(const struct user_regs_struct *regs, struct gs_cut_read *out)
{
    return false;
}

void gs_arch_set_result(struct user_regs_struct *regs, uint64_t result)
{
}

bool gs_arch_is_behind_call(const struct gs_target *target, uint64_t pc)
{
    return false;
}

bool gs_arch_is_restorer(const unsigned char *code, size_t bytes)
{
    return false;
}

bool gs_arch_interrupted(const struct gs_target *target, uint64_t frame)
{
    return false;
}

bool gs_arch_find_code(struct gs_target *target, uint64_t start,
                       const unsigned char *code, size_t bytes)
{
    return false;
}

const char *gs_arch_save(const struct gs_traced *thread, struct gs_saved **out)
{
    return NULL;
}

void gs_arch_forget(struct gs_saved *saved)
{
}

size_t gs_arch_room(void)
{
    return 0;
}

bool gs_arch_guard(struct gs_saved *saved, const struct gs_target *target)
{
    return false;
}

void gs_arch_call_regs(const struct gs_saved *saved, const struct gs_target *target,
                       const uint64_t words[7], struct user_regs_struct *out)
{
}

const struct user_regs_struct *gs_arch_regs(const struct gs_saved *saved)
{
    return NULL;
}

uint64_t gs_arch_mask(const struct gs_saved *saved)
{
    return 0;
}

void gs_arch_fill(const struct gs_saved *saved, unsigned char *data)
{
}

void gs_arch_stub_regs(const struct gs_saved *saved, uint64_t base,
                       struct user_regs_struct *out)
{
}

bool gs_arch_is_at_end(const struct user_regs_struct *regs, uint64_t base)
{
    return false;
}

#else
extern int gs_no_arch; /* a file has something in it */
#endif
