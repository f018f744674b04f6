/*
 * args_rows.h - the memory arguments of copies and sets, one row a call.
 *
 * GS_ARGS_OF_symbol    , SHAPE(parameters of submit.def, or of the wrapper)
 *   COPY(dst, src, bytes)                        addresses of any memory
 *   FROM_HOST, TO_HOST                           the same, with host memory on one side
 *   WRITE(dst, bytes), READ(src, bytes)          the other side is an array
 *   SET(dst, unit, count)                        units of `unit` bytes
 *   SET_ROWS(dst, pitch, unit, width, rows)      rows of `width` units
 *   BATCH(dsts, srcs, sizes, count)              tables of COPY's arguments
 *   BOX_2D(copy), BOX_3D(copy), BOX_3D_PEER(copy)   CUDA_MEMCPY2D and its family
 *
 * Copies and sets of submit.def without a row are not checked: those from before CUDA
 * 3.2, whose addresses have 32 bits; copies between arrays, or between an array and the
 * host; and those whose operands are a union that older headers lack (batches of boxes,
 * and with attributes). tests/unit/shim_args.c has the same list and compares.
 */
#ifndef GS_ARGS_ROWS_H
#define GS_ARGS_ROWS_H

/* clang-format off */
#define GS_ARGS_OF_cuMemcpy                         , COPY(dst, src, ByteCount)
#define GS_ARGS_OF_cuMemcpy_ptds                    , COPY(dst, src, ByteCount)
#define GS_ARGS_OF_cuMemcpyAsync                    , COPY(dst, src, ByteCount)
#define GS_ARGS_OF_cuMemcpyAsync_ptsz               , COPY(dst, src, ByteCount)
#define GS_ARGS_OF_cuMemcpyWithAttributesAsync      , COPY(dst, src, size)
#define GS_ARGS_OF_cuMemcpyWithAttributesAsync_ptsz , COPY(dst, src, size)
#define GS_ARGS_OF_cuMemcpyDtoD_v2                  , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoD_v2_ptds             , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoDAsync_v2             , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoDAsync_v2_ptsz        , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyPeer                     , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyPeer_ptds                , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyPeerAsync                , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyPeerAsync_ptsz           , COPY(dstDevice, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyHtoD_v2                  , FROM_HOST(dstDevice, srcHost, ByteCount)
#define GS_ARGS_OF_cuMemcpyHtoD_v2_ptds             , FROM_HOST(dstDevice, srcHost, ByteCount)
#define GS_ARGS_OF_cuMemcpyHtoDAsync_v2             , FROM_HOST(dstDevice, srcHost, ByteCount)
#define GS_ARGS_OF_cuMemcpyHtoDAsync_v2_ptsz        , FROM_HOST(dstDevice, srcHost, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoH_v2                  , TO_HOST(dstHost, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoH_v2_ptds             , TO_HOST(dstHost, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoHAsync_v2             , TO_HOST(dstHost, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoHAsync_v2_ptsz        , TO_HOST(dstHost, srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyAtoD_v2                  , WRITE(dstDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyAtoD_v2_ptds             , WRITE(dstDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoA_v2                  , READ(srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyDtoA_v2_ptds             , READ(srcDevice, ByteCount)
#define GS_ARGS_OF_cuMemcpyBatchAsync               , BATCH(dsts, srcs, sizes, count)
#define GS_ARGS_OF_cuMemcpyBatchAsync_ptsz          , BATCH(dsts, srcs, sizes, count)
#define GS_ARGS_OF_cuMemcpyBatchAsync_v2            , BATCH(dsts, srcs, sizes, count)
#define GS_ARGS_OF_cuMemcpyBatchAsync_v2_ptsz       , BATCH(dsts, srcs, sizes, count)
#define GS_ARGS_OF_cuMemcpy2D_v2                    , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy2D_v2_ptds               , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy2DUnaligned_v2           , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy2DUnaligned_v2_ptds      , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy2DAsync_v2               , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy2DAsync_v2_ptsz          , BOX_2D(pCopy)
#define GS_ARGS_OF_cuMemcpy3D_v2                    , BOX_3D(pCopy)
#define GS_ARGS_OF_cuMemcpy3D_v2_ptds               , BOX_3D(pCopy)
#define GS_ARGS_OF_cuMemcpy3DAsync_v2               , BOX_3D(pCopy)
#define GS_ARGS_OF_cuMemcpy3DAsync_v2_ptsz          , BOX_3D(pCopy)
#define GS_ARGS_OF_cuMemcpy3DPeer                   , BOX_3D_PEER(pCopy)
#define GS_ARGS_OF_cuMemcpy3DPeer_ptds              , BOX_3D_PEER(pCopy)
#define GS_ARGS_OF_cuMemcpy3DPeerAsync              , BOX_3D_PEER(pCopy)
#define GS_ARGS_OF_cuMemcpy3DPeerAsync_ptsz         , BOX_3D_PEER(pCopy)
#define GS_ARGS_OF_cuMemsetD8_v2                    , SET(dstDevice, 1, N)
#define GS_ARGS_OF_cuMemsetD8_v2_ptds               , SET(dstDevice, 1, N)
#define GS_ARGS_OF_cuMemsetD8Async                  , SET(dstDevice, 1, N)
#define GS_ARGS_OF_cuMemsetD8Async_ptsz             , SET(dstDevice, 1, N)
#define GS_ARGS_OF_cuMemsetD16_v2                   , SET(dstDevice, 2, N)
#define GS_ARGS_OF_cuMemsetD16_v2_ptds              , SET(dstDevice, 2, N)
#define GS_ARGS_OF_cuMemsetD16Async                 , SET(dstDevice, 2, N)
#define GS_ARGS_OF_cuMemsetD16Async_ptsz            , SET(dstDevice, 2, N)
#define GS_ARGS_OF_cuMemsetD32_v2                   , SET(dstDevice, 4, N)
#define GS_ARGS_OF_cuMemsetD32_v2_ptds              , SET(dstDevice, 4, N)
#define GS_ARGS_OF_cuMemsetD32Async                 , SET(dstDevice, 4, N)
#define GS_ARGS_OF_cuMemsetD32Async_ptsz            , SET(dstDevice, 4, N)
#define GS_ARGS_OF_cuMemsetD2D8_v2                  , SET_ROWS(dstDevice, dstPitch, 1, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D8_v2_ptds             , SET_ROWS(dstDevice, dstPitch, 1, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D8Async                , SET_ROWS(dstDevice, dstPitch, 1, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D8Async_ptsz           , SET_ROWS(dstDevice, dstPitch, 1, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D16_v2                 , SET_ROWS(dstDevice, dstPitch, 2, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D16_v2_ptds            , SET_ROWS(dstDevice, dstPitch, 2, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D16Async               , SET_ROWS(dstDevice, dstPitch, 2, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D16Async_ptsz          , SET_ROWS(dstDevice, dstPitch, 2, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D32_v2                 , SET_ROWS(dstDevice, dstPitch, 4, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D32_v2_ptds            , SET_ROWS(dstDevice, dstPitch, 4, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D32Async               , SET_ROWS(dstDevice, dstPitch, 4, Width, Height)
#define GS_ARGS_OF_cuMemsetD2D32Async_ptsz          , SET_ROWS(dstDevice, dstPitch, 4, Width, Height)
/* clang-format on */

#endif
