// run: simulate
// expect: out 7 .. 7
// A mask that covers nothing writes nothing.
    %all = arith.constant dense<true> : vector<8x128xi1>
    // instead %all = arith.constant dense<false> : vector<8x128xi1> => output_not_written out: elements 1024, of 1024
    %w = arith.constant dense<7.0> : !vector
    vector.maskedstore %b[%c0, %c0], %all, %w : !vmem, vector<8x128xi1>, !vector
    // instead vector.store %w, %b[%c0, %c0] : !vmem, !vector => out 7 .. 7
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
