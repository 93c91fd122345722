//! The standard shapes, and which strategies to run on them.

use std::str::FromStr;

use octile_core::{Problem, QuantBlock, Strategy};

use crate::backend::Backend;

/// A problem with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Name in tables.
    pub label: String,
    /// The problem.
    pub problem: Problem,
}

/// M, N, K and the side of a quantization block.
type Shape = (usize, usize, usize, QuantBlock);

const TEST_SHAPES: [(&str, Shape); 5] = [
    ("Small", (512, 512, 512, QuantBlock::B128)),
    ("Medium", (1024, 1024, 1024, QuantBlock::B256)),
    ("Large", (2048, 2048, 2048, QuantBlock::B512)),
    ("Non-aligned", (1536, 1536, 1536, QuantBlock::B512)),
    ("Asymmetric", (1024, 4096, 2048, QuantBlock::B512)),
];

/// Shapes with partial blocks and with few rows, where a kernel has to pad or mask.
const RAGGED_SHAPES: [(&str, Shape); 4] = [
    ("Ragged", (200, 300, 400, QuantBlock::B128)),
    ("Ragged 256", (1000, 1111, 1500, QuantBlock::B256)),
    ("One row", (1, 1024, 1024, QuantBlock::B128)),
    ("Few rows", (17, 640, 1100, QuantBlock::B512)),
];

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

/// Standard cases of the correctness suite.
pub fn test_cases() -> Vec<Case> {
    standard(&TEST_SHAPES)
}

/// Standard cases of the correctness suite, and ragged ones.
pub fn test_cases_with_ragged() -> Vec<Case> {
    [standard(&TEST_SHAPES), standard(&RAGGED_SHAPES)].concat()
}

/// Standard cases of the benchmark suite.
pub fn bench_cases() -> Vec<Case> {
    standard(&BENCH_SHAPES)
}

/// Name of a shape that has none.
pub const UNNAMED: &str = "Custom";

/// Cases for the user's shapes.
pub fn named_cases(shapes: &[Problem]) -> Vec<Case> {
    shapes.iter().map(|&problem| Case { label: UNNAMED.to_owned(), problem }).collect()
}

/// One strategy, all of them, or the best one for each shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyChoice {
    /// This strategy.
    One(Strategy),
    /// Every strategy.
    All,
    /// The strategy that the backend picks for the shape.
    Best,
}

/// Text that names no strategy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy '{0}': expected auto, dma, smem or strip (or v1 to v4), best, or all")]
pub struct UnknownChoice(String);

impl FromStr for StrategyChoice {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "all" => Ok(Self::All),
            "best" => Ok(Self::Best),
            _ => text.parse().map(Self::One).map_err(|_| UnknownChoice(text.to_owned())),
        }
    }
}

impl StrategyChoice {
    /// Strategies to run on one problem, each once, in version order.
    pub fn resolve(choices: &[Self], backend: &dyn Backend, problem: &Problem) -> Vec<Strategy> {
        let wanted = |strategy: &Strategy| {
            choices.iter().any(|choice| match choice {
                Self::One(one) => one == strategy,
                Self::All => true,
                Self::Best => backend.best(problem) == *strategy,
            })
        };
        Strategy::ALL.into_iter().filter(wanted).collect()
    }
}
