// run: simulate
// expect: output_not_written out: elements 1024, of 1024
// Copying memory that was never written is not an error; the result is still unwritten.
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
