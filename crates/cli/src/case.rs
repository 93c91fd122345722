//! The standard shapes: what `test` and `bench` run when no shape is asked for.

use octile_core::{Problem, QuantBlock};

/// A problem with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What tables call it.
    pub label: String,
    /// The problem.
    pub problem: Problem,
}

/// M, N, K and the side of a block.
type Shape = (usize, usize, usize, QuantBlock);

/// The five shapes of the correctness suite.
const TEST_SHAPES: [(&str, Shape); 5] = [
    ("Small", (512, 512, 512, QuantBlock::B128)),
    ("Medium", (1024, 1024, 1024, QuantBlock::B256)),
    ("Large", (2048, 2048, 2048, QuantBlock::B512)),
    ("Non-aligned", (1536, 1536, 1536, QuantBlock::B512)),
    ("Asymmetric", (1024, 4096, 2048, QuantBlock::B512)),
];

/// Shapes that no block divides, and few rows: what a kernel has to pad or cut.
const RAGGED_SHAPES: [(&str, Shape); 4] = [
    ("Ragged", (200, 300, 400, QuantBlock::B128)),
    ("Ragged 256", (1000, 1111, 1500, QuantBlock::B256)),
    ("One row", (1, 1024, 1024, QuantBlock::B128)),
    ("Few rows", (17, 640, 1100, QuantBlock::B512)),
];

/// The six shapes of the benchmark suite.
const BENCH_SHAPES: [(&str, Shape); 6] = [
    ("Small", (512, 512, 512, QuantBlock::B128)),
    ("Medium", (1024, 1024, 1024, QuantBlock::B256)),
    ("Large", (2048, 2048, 2048, QuantBlock::B512)),
    ("XLarge", (4096, 4096, 4096, QuantBlock::B512)),
    ("Asymmetric", (1024, 4096, 2048, QuantBlock::B512)),
    ("Wide", (2048, 2048, 4096, QuantBlock::B512)),
];

fn standard(shapes: &[(&str, Shape)]) -> Vec<Case> {
    let case = |&(label, (m, n, k, quant_block)): &(&str, _)| Case {
        label: label.to_owned(),
        problem: Problem::new(m, n, k, quant_block).expect("standard shapes are valid"),
    };
    shapes.iter().map(case).collect()
}

/// The standard cases of the correctness suite.
pub fn test_cases() -> Vec<Case> {
    standard(&TEST_SHAPES)
}

/// The standard cases of the correctness suite, and the ragged ones.
pub fn test_cases_with_ragged() -> Vec<Case> {
    [standard(&TEST_SHAPES), standard(&RAGGED_SHAPES)].concat()
}

/// The standard cases of the benchmark suite.
pub fn bench_cases() -> Vec<Case> {
    standard(&BENCH_SHAPES)
}

/// Cases for shapes that the user named.
pub fn named_cases(shapes: &[Problem]) -> Vec<Case> {
    shapes.iter().map(|&problem| Case { label: "Custom".to_owned(), problem }).collect()
}
