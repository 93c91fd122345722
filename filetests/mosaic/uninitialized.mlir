// run: simulate
// expect: out 2 .. 2
    %one_row = arith.constant dense<1.0> : !vector
    vector.store %one_row, %a[%c0, %c0] : !vmem, !vector
    // without => read_of_unwritten a: read line 6
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    // Elements that are only stored back where they came from are not used.
    // instead %v = vector.load %b[%c0, %c0] : !vmem, !vector => read_of_unwritten b: read line 6
    %twice = arith.addf %v, %v : !vector
    vector.store %twice, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
