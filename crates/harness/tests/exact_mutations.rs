//! Exact operands reveal every mistake: a single wrong block, scale or store in any tile of any standard
//! shape is detected, whatever the accumulator.
//!
//! Only the elements that a mistake affects are computed, up to the first wrong one.

use std::ops::Range;

use half::bf16;
use octile_core::{
    ActivationKind, E4m3, FloatKind, Problem, QuantBlock, ScaleGranularity, exact::ExactOperands,
    oracle::OracleInput,
};
use octile_harness::case::test_cases_with_ragged;

/// Arithmetic of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arithmetic {
    /// CPUs, and most TPU kernels.
    F32,
    /// Tensor cores: the products of one MMA are aligned to the largest addend and truncated to 13 bits below
    /// it; promotion every 128.
    Hopper,
    /// `strip` on TPU at quantization block 128: operands are scaled and rounded to bf16, with an f32
    /// accumulator over K.
    Bf16Operands,
}

const ARITHMETICS: [Arithmetic; 3] = [Arithmetic::F32, Arithmetic::Hopper, Arithmetic::Bf16Operands];

/// Reads of one k-block of an element: rows and blocks of the operands, and blocks of the scales.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reads {
    x: (usize, usize),
    w: (usize, usize),
    x_scale: (usize, usize),
    w_scale: (usize, usize),
    /// Columns skipped at either end of the block.
    skip: (usize, usize),
}

/// One mistake in one k-block of a tile, or in the whole tile.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    DroppedBlock,
    DroppedFirst32,
    DroppedLastColumn,
    WeightScaleOfBlock(isize),
    WeightScaleOfRow(isize),
    TransposedWeightScale,
    XScaleOfBlock(isize),
    XScaleOfRow(isize),
    TransposedXScale,
    BothScalesOfBlock(isize),
    XOfBlock(isize),
    XOfTile(isize),
    WeightOfBlock(isize),
    WeightOfTile(isize),
    /// The tile is stored from another row or column of tiles.
    StoredFromRow(isize),
    StoredFromColumn(isize),
}

const MISTAKES: [Mistake; 25] = {
    use Mistake::*;
    [
        DroppedBlock,
        DroppedFirst32,
        DroppedLastColumn,
        WeightScaleOfBlock(1),
        WeightScaleOfBlock(-1),
        WeightScaleOfRow(1),
        WeightScaleOfRow(-1),
        TransposedWeightScale,
        XScaleOfBlock(1),
        XScaleOfBlock(-1),
        XScaleOfRow(1),
        XScaleOfRow(-1),
        TransposedXScale,
        BothScalesOfBlock(1),
        BothScalesOfBlock(-1),
        XOfBlock(1),
        XOfBlock(-1),
        XOfTile(1),
        XOfTile(-1),
        WeightOfBlock(1),
        WeightOfBlock(-1),
        WeightOfTile(1),
        StoredFromRow(1),
        StoredFromColumn(1),
        StoredFromColumn(-1),
    ]
};

/// Side of a tile: small, because a mistake in a part of a large tile must be detected, too.
const TILE: usize = 64;

/// Decoded operands.
struct Decoded {
    exact: ExactOperands,
    x: Vec<f32>,
    w: Vec<f32>,
    /// Rows that share a scale of x, and the scales; `None` for plain activations.
    x_scales: Option<(usize, Vec<f32>)>,
}

impl Decoded {
    fn new(exact: ExactOperands) -> Self {
        let decode = |codes: &[u8]| codes.iter().map(|&code| E4m3::from_bits(code).to_f32()).collect();
        let w = decode(exact.operands.weight.codes());
        let quant_block = exact.operands.problem.quant_block;
        let (x, x_scales) = match exact.operands.oracle_input() {
            OracleInput::Fp8(x) => {
                (decode(x.codes()), Some((x.granularity().rows(quant_block), x.scales().to_vec())))
            }
            OracleInput::Plain(x) => (x, None),
        };
        Self { exact, x, w, x_scales }
    }

    fn problem(&self) -> Problem {
        self.exact.operands.problem
    }

    fn correct(&self, row: usize, col: usize, kb: usize) -> Reads {
        let group = self.x_scales.as_ref().map_or(1, |(rows, _)| *rows);
        Reads {
            x: (row, kb),
            w: (col, kb),
            x_scale: (row / group, kb),
            w_scale: (col / self.problem().quant_block.size(), kb),
            skip: (0, 0),
        }
    }

    /// The reads with a mistake; `None` where the block is dropped.
    fn mistaken(&self, mistake: Mistake, right: Reads) -> Option<Reads> {
        let Problem { m, n, k, quant_block, .. } = self.problem();
        let (w_rows, blocks) = self.problem().w_scale_shape();
        let x_rows = self.problem().x_scale_shape().map_or(1, |(rows, _)| rows);
        let len = quant_block.size().min(k - right.x.1 * quant_block.size());
        let moved =
            |at: usize, by: isize, count: usize| (at as isize + by).rem_euclid(count as isize) as usize;
        let transposed = |(row, col): (usize, usize), rows: usize| {
            let at = (col * rows + row) % (rows * blocks);
            (at / blocks, at % blocks)
        };
        let mut reads = right;
        match mistake {
            Mistake::DroppedBlock => return None,
            Mistake::DroppedFirst32 => reads.skip = (len.min(32), 0),
            Mistake::DroppedLastColumn => reads.skip = (0, 1),
            Mistake::WeightScaleOfBlock(by) => reads.w_scale.1 = moved(right.w_scale.1, by, blocks),
            Mistake::WeightScaleOfRow(by) => reads.w_scale.0 = moved(right.w_scale.0, by, w_rows),
            Mistake::TransposedWeightScale => reads.w_scale = transposed(right.w_scale, w_rows),
            Mistake::XScaleOfBlock(by) => reads.x_scale.1 = moved(right.x_scale.1, by, blocks),
            Mistake::XScaleOfRow(by) => reads.x_scale.0 = moved(right.x_scale.0, by, x_rows),
            Mistake::TransposedXScale => reads.x_scale = transposed(right.x_scale, x_rows),
            Mistake::BothScalesOfBlock(by) => {
                reads.x_scale.1 = moved(right.x_scale.1, by, blocks);
                reads.w_scale.1 = moved(right.w_scale.1, by, blocks);
            }
            Mistake::XOfBlock(by) => reads.x.1 = moved(right.x.1, by, blocks),
            Mistake::WeightOfBlock(by) => reads.w.1 = moved(right.w.1, by, blocks),
            Mistake::XOfTile(by) | Mistake::StoredFromRow(by) if m > TILE => {
                reads.x.0 = moved(right.x.0, by * TILE as isize, m);
            }
            Mistake::WeightOfTile(by) | Mistake::StoredFromColumn(by) if n > TILE => {
                reads.w.0 = moved(right.w.0, by * TILE as isize, n);
            }
            Mistake::XOfTile(_) | Mistake::StoredFromRow(_) => {}
            Mistake::WeightOfTile(_) | Mistake::StoredFromColumn(_) => {}
        }
        // A tile stored from elsewhere was computed with the scales of its origin.
        Some(match mistake {
            Mistake::StoredFromRow(_) | Mistake::StoredFromColumn(_) => {
                self.correct(reads.x.0, reads.w.0, right.x.1)
            }
            _ => reads,
        })
    }

    fn x_scale(&self, (row, kb): (usize, usize)) -> f32 {
        let blocks = self.problem().w_scale_shape().1;
        self.x_scales.as_ref().map_or(1.0, |(_, scales)| scales[row * blocks + kb])
    }

    fn w_scale(&self, (row, kb): (usize, usize)) -> f32 {
        self.exact.operands.weight.scale_row(row)[kb]
    }

    /// What one k-block adds to an element.
    fn contribution(&self, arithmetic: Arithmetic, reads: Reads) -> f32 {
        let Problem { k, quant_block, .. } = self.problem();
        let qb = quant_block.size();
        let block = |row: usize, kb: usize| row * k + kb * qb..row * k + k.min((kb + 1) * qb);
        let (x, w) = (&self.x[block(reads.x.0, reads.x.1)], &self.w[block(reads.w.0, reads.w.1)]);
        let len = x.len().min(w.len());
        let (first, end) = (reads.skip.0, len - reads.skip.1.min(len));
        let (x, w) = (&x[first.min(end)..end], &w[first.min(end)..end]);
        let (x_scale, w_scale) = (self.x_scale(reads.x_scale), self.w_scale(reads.w_scale));
        match arithmetic {
            Arithmetic::F32 => {
                let products = x.iter().zip(w).fold(0.0f32, |sum, (x, w)| sum + x * w);
                products * (x_scale * w_scale)
            }
            Arithmetic::Hopper => {
                let chains = x.chunks(128).zip(w.chunks(128));
                chains.fold(0.0, |sum, (x, w)| sum + tensor_core(x, w) * (x_scale * w_scale))
            }
            Arithmetic::Bf16Operands => {
                let round = |value: f32| bf16::from_f32(value).to_f32();
                x.iter().zip(w).fold(0.0, |sum, (x, w)| sum + round(x * x_scale) * round(w * w_scale))
            }
        }
    }

    /// The element of these contributions, as the kernel would store it.
    fn element(&self, contributions: impl Iterator<Item = f32>) -> f64 {
        self.problem().out.round(contributions.fold(0.0, |sum, contribution| sum + contribution))
    }

    /// Whether `mistake` in block `kb` of the tile changes an element; `None` where it has no effect.
    fn notices(&self, mistake: Mistake, tile: &mut CorrectTile, kb: usize) -> Option<bool> {
        let blocks = self.problem().w_scale_shape().1;
        let whole = matches!(mistake, Mistake::StoredFromRow(_) | Mistake::StoredFromColumn(_));
        if self.x_scales.is_none()
            && matches!(
                mistake,
                Mistake::XScaleOfBlock(_) | Mistake::XScaleOfRow(_) | Mistake::TransposedXScale
            )
        {
            return None;
        }
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        let mut is_mistake = false;
        for (row, col) in rows.flat_map(|row| cols.clone().map(move |col| (row, col))) {
            let right = self.correct(row, col, kb);
            if self.mistaken(mistake, right) == Some(right) {
                continue;
            }
            is_mistake = true;
            let contributions = (0..blocks).filter_map(|block| {
                if block != kb && !whole {
                    return Some(tile.contribution(self, row, col, block));
                }
                let reads = self.mistaken(mistake, self.correct(row, col, block))?;
                Some(self.contribution(tile.arithmetic, reads))
            });
            if self.element(contributions) != self.exact.expected(row, col) {
                return Some(true);
            }
        }
        is_mistake.then_some(false)
    }
}

/// Contributions to one tile without a mistake, computed when they are first needed: a mistake changes one
/// k-block, so all mistakes share the others.
struct CorrectTile {
    arithmetic: Arithmetic,
    rows: Range<usize>,
    cols: Range<usize>,
    known: Vec<Option<f32>>,
}

impl CorrectTile {
    fn new(problem: &Problem, arithmetic: Arithmetic, (row, col): (usize, usize)) -> Self {
        let known = vec![None; TILE * TILE * problem.w_scale_shape().1];
        let range = |at: usize, len: usize| at * TILE..len.min((at + 1) * TILE);
        Self { arithmetic, rows: range(row, problem.m), cols: range(col, problem.n), known }
    }

    fn corners(&self) -> [(usize, usize); 2] {
        [(self.rows.start, self.cols.start), (self.rows.end - 1, self.cols.end - 1)]
    }

    fn contribution(&mut self, draw: &Decoded, row: usize, col: usize, kb: usize) -> f32 {
        let element = (row - self.rows.start) * TILE + col - self.cols.start;
        let known = &mut self.known[kb * TILE * TILE + element];
        *known.get_or_insert_with(|| draw.contribution(self.arithmetic, draw.correct(row, col, kb)))
    }
}

/// Dot product as tensor cores compute it.
fn tensor_core(x: &[f32], w: &[f32]) -> f32 {
    let mut sum = 0.0f32;
    for (x, w) in x.chunks(32).zip(w.chunks(32)) {
        let products = || x.iter().zip(w).map(|(x, w)| x * w).chain([sum]);
        let largest = products().fold(0.0f32, |largest, product| largest.max(product.abs()));
        // Keep the leading bit of the largest addend and 13 bits below it.
        let unit = f32::from_bits(largest.to_bits() & 0x7f80_0000) / 8192.0;
        if unit > 0.0 {
            let per_unit = 1.0 / unit;
            let units: i32 = products().map(|product| (product * per_unit) as i32).sum();
            sum = units as f32 * unit;
        }
    }
    sum
}

/// Number of mistakes, and of undetected ones, over all tiles and k-blocks.
fn count(problem: Problem) -> (usize, usize) {
    let draws: Vec<Decoded> = (0..ExactOperands::draws(&problem))
        .map(|draw| Decoded::new(ExactOperands::new(problem, draw, 1)))
        .collect();
    assert!(!draws.is_empty(), "{problem}");
    let blocks = problem.w_scale_shape().1;
    let (mut made, mut unnoticed) = (0, 0);
    for tile in
        (0..problem.m.div_ceil(TILE)).flat_map(|row| (0..problem.n.div_ceil(TILE)).map(move |col| (row, col)))
    {
        for arithmetic in ARITHMETICS {
            let new = |_: &Decoded| CorrectTile::new(&problem, arithmetic, tile);
            let mut tiles: Vec<CorrectTile> = draws.iter().map(new).collect();
            // Without a mistake the corners of every tile are exact.
            for (draw, tile) in draws.iter().zip(&mut tiles) {
                for (row, col) in tile.corners() {
                    let element = draw.element((0..blocks).map(|kb| tile.contribution(draw, row, col, kb)));
                    assert_eq!(
                        element,
                        draw.exact.expected(row, col),
                        "{problem} {arithmetic:?} {row} {col}"
                    );
                }
            }
            for mistake in MISTAKES {
                let whole = matches!(mistake, Mistake::StoredFromRow(_) | Mistake::StoredFromColumn(_));
                for kb in 0..if whole { 1 } else { blocks } {
                    let draws = draws.iter().zip(&mut tiles);
                    let noticed: Vec<bool> =
                        draws.map_while(|(draw, tile)| draw.notices(mistake, tile, kb)).collect();
                    made += usize::from(!noticed.is_empty());
                    if !noticed.is_empty() && !noticed.contains(&true) {
                        unnoticed += 1;
                        println!(
                            "unnoticed: {problem} {} {arithmetic:?} {mistake:?} tile {tile:?} k-block {kb}",
                            problem.x
                        );
                    }
                }
            }
        }
    }
    (made, unnoticed)
}

fn all_noticed(problems: impl IntoIterator<Item = Problem>) {
    let (mut all_made, mut all_unnoticed) = (0, 0);
    for problem in problems {
        let (made, unnoticed) = count(problem);
        println!("{problem} x {} out {}: {} of {made} noticed", problem.x, problem.out, made - unnoticed);
        (all_made, all_unnoticed) = (all_made + made, all_unnoticed + unnoticed);
    }
    println!("{} of {all_made} mistakes noticed", all_made - all_unnoticed);
    assert!(all_made > 0);
    assert_eq!(all_unnoticed, 0);
}

#[test]
fn every_mistake_in_every_tile_of_the_standard_shapes() {
    all_noticed(test_cases_with_ragged().into_iter().map(|case| case.problem));
}

#[test]
fn every_kind_of_activation_and_result() {
    use ScaleGranularity::{Block, Token};
    let floats = [FloatKind::F32, FloatKind::Bf16, FloatKind::F16];
    let scaled = [Block, Token].into_iter().flat_map(|granularity| {
        let quantized = floats.map(|float| ActivationKind::Quantized(float, granularity));
        quantized.into_iter().chain([ActivationKind::Fp8(granularity)])
    });
    let kinds: Vec<ActivationKind> = scaled.chain(floats.map(ActivationKind::Plain)).collect();
    let shapes = [
        (131, 200, 400, QuantBlock::B128),
        (1, 520, 700, QuantBlock::B256),
        (17, 640, 1100, QuantBlock::B512),
    ];
    let problems = shapes.into_iter().flat_map(|(m, n, k, quant_block)| {
        let problem = Problem::new(m, n, k, quant_block).unwrap();
        kinds.clone().into_iter().flat_map(move |x| floats.map(|out| problem.with_x(x).with_out(out)))
    });
    all_noticed(problems);
}
