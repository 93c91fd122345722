// run: verify tpu7x
// expect: ok
// What libtpu rejects, and what looks alike and compiles: single rows of f32, but only pairs of bf16 rows.
    %narrow = memref.alloca() : memref<64x192xbf16, #tpu.memory_space<vmem>>
    %pair = tpu.memref_slice %narrow[%eight, %zero] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<2x192xbf16, #tpu.memory_space<vmem>>
    // instead %pair = tpu.memref_slice %narrow[%one, %zero] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<2x192xbf16, #tpu.memory_space<vmem>> => line 5: tpu.memref_slice: offset along dimension 0 is not known to be a multiple of 2
    // instead %pair = tpu.memref_slice %narrow[%zero, %zero] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<1x192xbf16, #tpu.memory_space<vmem>> => line 5: tpu.memref_slice: 1 of 64 along dimension 0 is not a multiple of 2
    // instead %pair = tpu.memref_slice %narrow[%zero, %zero] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<2x64xbf16, #tpu.memory_space<vmem>> => ok
    // instead %pair = tpu.memref_slice %narrow[%zero, %zero] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<2x32xbf16, #tpu.memory_space<vmem>> => line 5: tpu.memref_slice: 32 of 192 along dimension 1 is not a multiple of 128
    // instead %pair = tpu.memref_slice %narrow[%zero, %eight] : memref<64x192xbf16, #tpu.memory_space<vmem>> -> memref<2x128xbf16, #tpu.memory_space<vmem>> => line 5: tpu.memref_slice: offset along dimension 1 is not known to be a multiple of 128
    %half = tpu.memref_slice %x[%eight, %zero] : !hbm -> !rows
    // instead %half = tpu.memref_slice %x[%one, %zero] : !hbm -> !rows => ok
    tpu.enqueue_dma source(%half : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
