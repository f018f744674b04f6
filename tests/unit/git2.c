/*
 * git2.c - in the place of libgit2, by which criterion shows how two texts differ. The
 * real one brings fifteen libraries and reads the system's root certificates in each
 * process that criterion starts, one for each test: half of what a small test takes.
 * Without it, a failed assertion shows the texts alone.
 */
#define SEEN __attribute__((visibility("default")))

SEEN int git_libgit2_init(void);
SEEN int git_libgit2_shutdown(void);
SEEN int git_diff_buffers(void);

int git_libgit2_init(void)
{
    return 1; /* how often it was called */
}

int git_libgit2_shutdown(void)
{
    return 0;
}

int git_diff_buffers(void)
{
    return -1; /* an error */
}
