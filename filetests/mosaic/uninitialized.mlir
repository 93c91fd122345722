// run: simulate
// expect: output_not_written out: elements 1024, of 1024
    %one_row = arith.constant dense<1.0> : !vector
    vector.store %one_row, %a[%c0, %c0] : !vmem, !vector
    // without => read_of_unwritten a: read line 6; output_not_written out: elements 1024, of 1024
    %v = vector.load %a[%c0, %c0] : !vmem, !vector
    // Elements that are only stored back where they came from are not used.
    // instead %v = vector.load %b[%c0, %c0] : !vmem, !vector => output_not_written out: elements 1024, of 1024
    vector.store %v, %b[%c0, %c0] : !vmem, !vector
