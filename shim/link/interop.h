/*
 * interop.h - driver functions for OpenGL and EGL that give the device work to do.
 *
 * Declared here and not taken from cudaGL.h and cudaEGL.h, for these need headers of GL
 * and EGL. Handles of those interfaces are passed on unseen: of pointers only the size
 * counts, and of the frame that is passed by value size and alignment.
 * Owns: nothing.   Lock: none.
 * Source: cudaGL.h, cudaEGL.h of CUDA 13.0
 */
#ifndef GS_INTEROP_H
#define GS_INTEROP_H

#include <cuda.h>
#include <stddef.h>

/* CUeglFrame_v1: three planes, six numbers, three enumerations. */
struct gs_egl_frame {
    void *planes[3];
    unsigned int numbers[6];
    int kinds[3];
};

CUresult cuEGLStreamConsumerAcquireFrame(void *conn, CUgraphicsResource *pCudaResource,
                                         CUstream *pStream, unsigned int timeout);
CUresult cuEGLStreamConsumerReleaseFrame(void *conn, CUgraphicsResource pCudaResource,
                                         CUstream *pStream);
CUresult cuEGLStreamProducerPresentFrame(void *conn, struct gs_egl_frame eglframe,
                                         CUstream *pStream);
CUresult cuEGLStreamProducerReturnFrame(void *conn, struct gs_egl_frame *eglframe,
                                        CUstream *pStream);
CUresult cuGLMapBufferObject(unsigned int *dptr, unsigned int *size, unsigned int buffer);
CUresult cuGLMapBufferObjectAsync(unsigned int *dptr, unsigned int *size,
                                  unsigned int buffer, CUstream hStream);
CUresult cuGLMapBufferObjectAsync_v2(CUdeviceptr *dptr, size_t *size, unsigned int buffer,
                                     CUstream hStream);
CUresult cuGLMapBufferObjectAsync_v2_ptsz(CUdeviceptr *dptr, size_t *size,
                                          unsigned int buffer, CUstream hStream);
CUresult cuGLMapBufferObject_v2(CUdeviceptr *dptr, size_t *size, unsigned int buffer);
CUresult cuGLMapBufferObject_v2_ptds(CUdeviceptr *dptr, size_t *size,
                                     unsigned int buffer);
CUresult cuGLUnmapBufferObject(unsigned int buffer);
CUresult cuGLUnmapBufferObjectAsync(unsigned int buffer, CUstream hStream);

#endif
