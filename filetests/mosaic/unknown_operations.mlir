// run: simulate
// expect: out 7 .. 7
// An unknown operation is refused wherever it stands, even where its result is unused: it may do anything.
    %never = arith.constant false
    %w = arith.constant dense<7.0> : !vector
    tpu.sem_signal %r, %zero : !count
    // instead "tpu.sparkle"() : () -> () => 6:1: 'tpu.sparkle' is not supported
    // instead %dead = "vector.sparkle"(%c0) : (index) -> !vector => 6:1: 'vector.sparkle' is not supported
    // instead scf.if %never { "tpu.sparkle"() : () -> () } => 6:17: 'tpu.sparkle' is not supported
    // instead "tpu.barrier"() : () -> () => 6:1: 'tpu.barrier' is not supported
    // instead %u = arith.constant dense<7.0> : vector<8x128xf33> => parse error: 6:47: expected a type, found 'f33'
    // instead %u = arith.addf %c0, %c0 : f32 => parse error: 6:28: an operand of arith.addf has the type index, not f32
    // instead %u = => parse error: 15:5: vector.store has 0 results, but 1 names
    // instead %u = arith.addf %undefined, %w : !vector => parse error: 6:17: %undefined is used before its definition
    vector.store %w, %b[%c0, %c0] : !vmem, !vector
    tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
