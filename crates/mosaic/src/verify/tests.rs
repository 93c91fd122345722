use octile_core::device::tpu::TpuChip;

use super::*;
use crate::parse;

fn violations(body: &str, chip: &str) -> Vec<(Rule, u32, String)> {
    let text = format!(
        "module {{\n  func.func @k(%i: i32, %x: memref<64x512xf8E4M3FN, #tpu.memory_space<hbm>>, \
         %s: memref<4x4xf32, #tpu.memory_space<smem>>, %v: memref<64x512xf8E4M3FN, #tpu.memory_space<vmem>>, \
         %d: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, \
         %r: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) {{\n{body}\n    return\n  }}\n}}"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let chip = TpuChip::named(chip).unwrap();
    let line = |violation: &Violation| violation.place.map_or(0, |place| place.line);
    verify(&module, chip).into_iter().map(|v| (v.rule, line(&v), v.message)).collect()
}

#[test]
fn every_violation_is_reported_with_its_line() {
    let found = violations(
        "    %c0 = arith.constant 0 : index\n    %c2 = arith.constant 2 : i32\n    \
         %a = tpu.memref_slice %x[%c2, %i] : memref<64x512xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<32x128xf8E4M3FN, #tpu.memory_space<hbm>>\n    \
         %b = vector.load %s[%c0, %c0] : memref<4x4xf32, #tpu.memory_space<smem>>, vector<4x4xf32>\n    \
         %c = arith.addf %b, %b : vector<4x4xf32>\n    \
         tpu.wait_dma2 semaphore(%r : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<64x512xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%v : memref<64x512xf8E4M3FN, #tpu.memory_space<vmem>>)\n    \
         %e = memref.load %v[%c0, %c0] : memref<64x512xf8E4M3FN, #tpu.memory_space<vmem>>",
        "tpu7x",
    );
    let brief: Vec<(Rule, u32)> = found.iter().map(|(rule, line, _)| (*rule, *line)).collect();
    assert_eq!(
        brief,
        [(Rule::Tiles, 5), (Rule::Tiles, 5), (Rule::Space, 6), (Rule::Types, 8), (Rule::Space, 9)],
        "{found:#?}"
    );
    assert!(found[0].2.contains("not known to be a multiple of 4"), "{}", found[0].2);
    assert!(found[3].2.contains("dma_semaphore"), "{}", found[3].2);
}

#[test]
fn offsets_that_are_multiples_of_words_and_lanes_are_fine() {
    let found = violations(
        "    %c128 = arith.constant 128 : i32\n    %c32 = arith.constant 32 : i32\n    \
         %j = arith.muli %i, %c128 : i32\n    %k = arith.addi %j, %c128 : i32\n    \
         %a = tpu.memref_slice %x[%c32, %k] : memref<64x512xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<32x128xf8E4M3FN, #tpu.memory_space<hbm>>",
        "tpu7x",
    );
    assert_eq!(found, []);
}

#[test]
fn a_chip_without_8_bit_products_refuses_them() {
    let product = "    %c0 = arith.constant 0 : index\n    \
         %a = vector.load %v[%c0, %c0] : memref<64x512xf8E4M3FN, #tpu.memory_space<vmem>>, vector<64x512xf8E4M3FN>\n    \
         %z = arith.constant dense<0.0> : vector<64x64xf32>\n    \
         %p = tpu.matmul %a, %a, %z {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>} : vector<64x512xf8E4M3FN>, vector<64x512xf8E4M3FN>, vector<64x64xf32> -> vector<64x64xf32>";
    assert_eq!(violations(product, "tpu7x"), []);
    assert_eq!(violations(product, "v4").iter().map(|(rule, ..)| *rule).collect::<Vec<_>>(), [Rule::Chip]);
}
