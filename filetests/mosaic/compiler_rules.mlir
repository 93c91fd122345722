// run: verify tpu7x
// expect: ok
// What libtpu rejects although it is valid Mosaic.
    %c1 = arith.constant 1 : index
    %w = arith.constant dense<7.0> : !vector
    %half = tpu.memref_slice %x[%eight, %zero] : !hbm -> !rows
    // instead %half = tpu.memref_slice %x[%one, %zero] : !hbm -> !rows => line 6: tpu.memref_slice: offset along dimension 0 is not known to be a multiple of the tile's 8
    tpu.enqueue_dma source(%half : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    vector.store %w, %b[%c0, %c0] : !vmem, !vector
    // instead vector.store %w, %b[%c1, %c0] : !vmem, !vector => ok
