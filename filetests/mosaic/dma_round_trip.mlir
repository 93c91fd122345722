// run: simulate
// expect: out 0 .. 1023
// A kernel copies in, moves a block, and copies out; each step needs the wait before it.
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    // without => deadlock: available 0, needed 4096, semaphore s, signalled_by [], wait line 6
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    // without => read_during_copy_in a: copy line 4, read line 9, semaphore s; semaphore_left_over: count 4096, semaphore s, signalled_by [line 4, line 11]
    // instead tpu.wait_dma2 semaphore(%t : !dma) src(%x1 : !rows) dst(%b : !vmem) => deadlock: available 0, needed 4096, semaphore t, signalled_by [], wait line 6
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    // without => deadlock: available 0, needed 4096, semaphore s, signalled_by [line 4], wait line 13
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
    // without => semaphore_left_over: count 4096, semaphore s, signalled_by [line 4, line 11]; out 0 .. 1023
