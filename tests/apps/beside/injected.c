/*
 * injected.c - a library that the driver or NVTX is told to load, and that does nothing.
 *
 * It is built twice: with the name of a memory checker's, and with that of some other
 * tool's. Whether each allocation reaches the driver is seen in the simulated driver's
 * own log of its calls.
 */
int InitializeInjection(void);

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    return 1;
}
