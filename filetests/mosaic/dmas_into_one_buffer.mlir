// run: simulate
// expect: output_not_written out: elements 1024, of 1024
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    // without => write_during_copy_in a: copy line 3, semaphore s, write line 6; semaphore_left_over: count 4096, semaphore s, signalled_by [line 3]; output_not_written out: elements 1024, of 1024
    tpu.enqueue_dma source(%x1 : !rows) target(%a : !vmem) target_semaphore(%t : !dma)
    tpu.wait_dma2 semaphore(%t : !dma) src(%x1 : !rows) dst(%b : !vmem)
    // without => read_during_copy_in a: copy line 6, read line 9, semaphore t; semaphore_left_over: count 4096, semaphore t, signalled_by [line 6]; output_not_written out: elements 1024, of 1024
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
