/*
 * transport.c - a library that is called as one is that maps device memory for others,
 * and does nothing.
 */
__attribute__((visibility("default"))) void gs_transport(void);

void gs_transport(void)
{
}
