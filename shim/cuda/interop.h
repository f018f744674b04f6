/*
 * interop.h - driver functions for OpenGL, EGL and VDPAU that submit work to the device
 * or create a context.
 *
 * Declared here and not taken from cudaGL.h and the like, since these need headers of
 * those interfaces. Handles of those interfaces are passed on without inspection: of
 * pointers only the size counts, and of the frame that is passed by value, size and
 * alignment.
 * Owns: nothing.   Lock: none.
 * Source: cudaGL.h, cudaEGL.h, cudaVDPAU.h of CUDA 13.0
 */
#ifndef GS_INTEROP_H
#define GS_INTEROP_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

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
CUresult cuGLCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice device);
CUresult cuGLCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice device);
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
CUresult cuVDPAUCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice device,
                          uint32_t vdpDevice, void *vdpGetProcAddress);
CUresult cuVDPAUCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice device,
                             uint32_t vdpDevice, void *vdpGetProcAddress);

#endif
