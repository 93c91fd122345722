// run: simulate
// expect: read_during_copy_in a: copy line 4, read line 8, semaphore s; output_not_written out: elements 1024, of 1024
// The run happens to read the right data, but only a wait on %s orders the load after its DMA.
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.enqueue_dma source(%x1 : !rows) target(%b : !vmem) target_semaphore(%t : !dma)
    tpu.wait_dma2 semaphore(%t : !dma) src(%x1 : !rows) dst(%b : !vmem)
    // instead tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem) => write_during_copy_in b: copy line 5, semaphore t, write line 9; deadlock: available 0, needed 4096, semaphore s, signalled_by [line 4], wait line 11
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
    // without => output_not_written out: elements 1024, of 1024
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    // instead tpu.wait_dma2 semaphore(%t : !dma) src(%x1 : !rows) dst(%b : !vmem) => read_during_copy_in a: copy line 4, read line 8, semaphore s; deadlock: available 0, needed 4096, semaphore t, signalled_by [line 5], wait line 11
