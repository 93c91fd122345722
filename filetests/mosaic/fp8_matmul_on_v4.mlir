// run: verify v4
// expect: line 6: tpu.matmul: v4 cannot multiply 8-bit floats
    %q = arith.constant dense<1.0> : vector<32x128xf8E4M3FN>
    %p = arith.constant dense<1.0> : vector<128x128xf8E4M3FN>
    %sum = arith.constant dense<0.0> : vector<32x128xf32>
    %d = tpu.matmul %q, %p, %sum {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>} : vector<32x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<32x128xf32> -> vector<32x128xf32>
