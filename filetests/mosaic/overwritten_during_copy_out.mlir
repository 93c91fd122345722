// run: simulate
// expect: out 0 .. 1023
// The store must wait until the DMA has read %b.
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
    // without => overwritten_during_copy_out b: copy line 8, semaphore s, write line 11; semaphore_left_over: count 4096, semaphore s, signalled_by [line 4, line 8]; out 0 .. 1023
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    // without => out 0 .. 1023
