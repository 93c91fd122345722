// run: simulate
// expect: out 0 .. 1023
// Two DMAs signal one semaphore; one wait for half of the bytes orders neither.
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.enqueue_dma source(%x1 : !rows) target(%b : !vmem) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    // without => read_during_copy_in a: copy line 4, read line 9, semaphore s; write_during_copy_in b: copy line 5, semaphore s, write line 10; semaphore_left_over: count 4096, semaphore s, signalled_by [line 4, line 5, line 11]; out 1024 .. 2047
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
