// run: simulate
// expect: out 3072 .. 4095
    %row = arith.constant 24 : i32
    // instead %row = arith.constant 25 : i32 => out_of_bounds: access line 7, buffer x, dimension 0, extent 32, index 25, size 8
    // instead %row = arith.constant -1 : i32 => out_of_bounds: access line 7, buffer x, dimension 0, extent 32, index -1, size 8
    %rows = tpu.memref_slice %x[%row, %zero] : !hbm -> !rows
    tpu.enqueue_dma source(%rows : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
