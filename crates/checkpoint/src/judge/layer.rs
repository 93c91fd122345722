//! The verdict on one weight, from the statistics of its tiles.

use octile_core::E4m3;
use serde::Serialize;

use super::{
    codes::{Histogram, LARGEST},
    defect::{Defect, DefectKind},
    format::{Fp8Weight, Granularity},
    order::{self, ScaleOrder},
    wording::are,
};
use crate::{read::Tensor, write::is_power_of_two};

/// A weight, as it was found.
#[derive(Debug, Clone, Serialize)]
pub struct JudgedLayer {
    /// Name of the tensor.
    pub name: String,
    /// Shape, outermost first.
    pub shape: Vec<usize>,
    /// Element type, as in the file.
    pub dtype: String,
    /// Bytes, including the scales.
    pub bytes: u64,
    /// Why an fp8 weight was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<&'static str>,
    /// Its scales, if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<ScaleSummary>,
    /// Its codes, if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codes: Option<CodeSummary>,
    /// Signal-to-quantization-noise ratio, if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr: Option<Snr>,
}

/// The scales of a weight.
#[derive(Debug, Clone, Serialize)]
pub struct ScaleSummary {
    /// Name of the tensor.
    pub tensor: String,
    /// Element type, as in the file.
    pub dtype: String,
    /// How many values share one.
    pub granularity: Granularity,
    /// Rows and columns that share one.
    pub block: [usize; 2],
    /// Number of scales.
    pub count: usize,
    /// Smallest.
    pub min: f32,
    /// Median.
    pub median: f32,
    /// Largest.
    pub max: f32,
    /// Whether all are powers of two.
    pub powers_of_two: bool,
    /// Whether each is at its block.
    pub order: ScaleOrder,
}

/// The codes of a weight.
#[derive(Debug, Clone, Serialize)]
pub struct CodeSummary {
    /// Number of codes.
    pub total: u64,
    /// Zeros.
    pub zero: u64,
    /// Codes of magnitude 448.
    pub saturated: u64,
    /// NaN codes.
    pub nan: u64,
    /// Number of tiles: blocks, or parts of them of 128 x 128 at most.
    pub blocks: usize,
    /// Tiles of zeros.
    pub zero_blocks: usize,
    /// Tiles whose largest magnitude is 448.
    pub full_range_blocks: usize,
    /// Median of the largest magnitudes of nonzero tiles, in units of the scale.
    pub median_max: f32,
    /// Root mean square of the dequantized values.
    pub rms: f64,
}

/// Signal-to-quantization-noise ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Snr {
    /// In dB; `None` if there is no noise at all.
    pub db: Option<f64>,
    /// Where it is from.
    pub source: SnrSource,
}

/// Where a signal-to-noise ratio is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnrSource {
    /// Estimated from the codes, with rounding errors evenly distributed between neighbouring codes.
    Codes,
    /// Measured against the original.
    Original,
}

impl Snr {
    pub(super) fn new(signal: f64, noise: f64, source: SnrSource) -> Option<Self> {
        let db = match (signal > 0.0, noise > 0.0) {
            (true, true) => Some(10.0 * (signal / noise).log10()),
            (_, false) => None,
            (false, true) => Some(f64::NEG_INFINITY),
        };
        (signal.is_finite() && noise.is_finite()).then_some(Self { db, source })
    }
}

/// What the streaming pass collects of a weight. One entry per tile.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub histogram: Histogram,
    pub max: Vec<u8>,
    /// Root mean square of the codes.
    pub rms: Vec<f32>,
    /// Scale that fits the original best: infinite for zeros in place of values, NaN for zeros in both. Empty
    /// without an original.
    pub fit: Vec<f32>,
    /// Cosine between codes and original; NaN if one is zero.
    pub cosine: Vec<f32>,
    pub power: f64,
    pub noise: f64,
    pub error: f64,
    pub original: f64,
    /// Values of the original beyond the largest code.
    pub clipped: u64,
}

/// Larger block maxima are not those of a neural network's weights; reciprocals of usual scales exceed it.
const IMPLAUSIBLE: f32 = 3e4;

/// Deviation of a scale from the best fit, as a logarithm. Rounding to the nearest code stays below 1/16.
const MISFIT: f32 = 0.07;

/// Typical deviation of a right scale from the best fit, as a logarithm, where errors average out.
const FIT: f32 = 0.01;

/// Cosine below which codes and original are different weights; quantization leaves above 0.99.
const UNRELATED: f32 = 0.9;

fn value(code: u8) -> f32 {
    E4m3::from_bits(code).to_f32()
}

fn median(mut values: Vec<f32>) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// Judges a weight with the scales of its stack, row-major.
pub(super) fn judge(
    weight: &Fp8Weight,
    (tensor, scale_tensor): (&Tensor, &Tensor),
    scales: &[f32],
    tally: &Tally,
    defects: &mut Vec<Defect>,
) -> JudgedLayer {
    let name = &tensor.name;
    let mut found = |kind, evidence: String| defects.push(Defect::of(kind, name, evidence));
    let histogram = &tally.histogram;
    let zero_blocks = tally.max.iter().filter(|max| **max == 0).count();
    let full_range = tally.max.iter().filter(|max| **max == LARGEST).count();
    let maxima: Vec<f32> = tally.max.iter().filter(|max| **max > 0).map(|max| value(*max)).collect();
    if histogram.nans() > 0 {
        let evidence = format!(
            "{} of {} codes {} NaN (0x7f or 0xff)",
            histogram.nans(),
            histogram.total(),
            are(histogram.nans())
        );
        found(DefectKind::NanCodes, evidence);
    }
    // The original decides, where there is one.
    let may_be_clipped = tally.fit.is_empty() || 1000 * tally.clipped > histogram.total();
    if may_be_clipped && histogram.is_clipped(tally.max.len() as u64) {
        let percent = 100.0 * histogram.saturated() as f64 / histogram.total() as f64;
        found(
            DefectKind::SaturatedCodes,
            format!("{percent:.1} % of its codes are +-448, values are clipped"),
        );
    }
    let bad = bad_scale(weight, scales, tally);
    if let Some(evidence) = &bad {
        found(DefectKind::BadScale, format!("{} {evidence}", scale_tensor.name));
    }
    let order = match (weight.is_tile_per_scale(), &bad) {
        (true, None) => order::judge(scales, &tally.rms, weight.grid()),
        (true, Some(_)) => ScaleOrder::NotObservable,
        (false, _) => ScaleOrder::NotApplicable,
    };
    let order = match tally.fit.is_empty() || bad.is_some() {
        true => {
            if let Some((kind, evidence)) = implausible(weight, scales, tally, order) {
                found(kind, evidence);
            }
            order
        }
        false => match misfit(weight, scales, tally) {
            Some((kind, evidence)) => {
                found(kind, evidence);
                if kind == DefectKind::TransposedScales { ScaleOrder::Transposed } else { order }
            }
            None if order == ScaleOrder::NotApplicable => order,
            None => ScaleOrder::Confirmed,
        },
    };
    let usable: Vec<f32> = scales.iter().copied().filter(|scale| scale.is_finite()).collect();
    let snr = match tally.fit.is_empty() {
        true => Snr::new(tally.power, tally.noise, SnrSource::Codes),
        false => Snr::new(tally.original, tally.error, SnrSource::Original),
    };
    JudgedLayer {
        name: name.clone(),
        shape: tensor.shape.clone(),
        dtype: format!("{:?}", tensor.dtype),
        bytes: tensor.bytes + scale_tensor.bytes,
        not_judged: None,
        scales: Some(ScaleSummary {
            tensor: scale_tensor.name.clone(),
            dtype: format!("{:?}", scale_tensor.dtype),
            granularity: weight.scales.granularity,
            block: weight.scales.block,
            count: scales.len(),
            min: usable.iter().copied().fold(f32::INFINITY, f32::min),
            max: usable.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            median: median(usable),
            powers_of_two: scales.iter().all(|scale| is_power_of_two(*scale)),
            order,
        }),
        codes: Some(CodeSummary {
            total: histogram.total(),
            zero: histogram.zeros(),
            saturated: histogram.saturated(),
            nan: histogram.nans(),
            blocks: tally.max.len(),
            zero_blocks,
            full_range_blocks: full_range,
            median_max: median(maxima),
            rms: (tally.power / histogram.total().max(1) as f64).sqrt(),
        }),
        snr,
    }
}

/// Describes scales that cannot be multiplied with.
fn bad_scale(weight: &Fp8Weight, scales: &[f32], tally: &Tally) -> Option<String> {
    let width = weight.grid()[1];
    // Quantizers give a block of zeros a scale too, but a weight that was never filled has none.
    let is_zero_in_original = !tally.fit.is_empty() && tally.original == 0.0;
    if scales.iter().all(|scale| *scale == 0.0) && !is_zero_in_original {
        return Some("holds only zeros: no scale is usable".to_owned());
    }
    // Zero is harmless where all codes are.
    let is_bad = |(at, scale): &(usize, &f32)| {
        let is_nonzero = !weight.is_tile_per_scale() || tally.max.get(*at).is_none_or(|max| *max > 0);
        !(scale.is_finite() && **scale >= 0.0) || **scale == 0.0 && is_nonzero
    };
    let (at, scale) = scales.iter().enumerate().find(is_bad)?;
    let count = scales.iter().enumerate().filter(is_bad).count();
    Some(format!(
        "holds {scale} at ({}, {}): {count} of {} scales {} unusable",
        at / width,
        at % width,
        scales.len(),
        are(count as u64)
    ))
}

/// Judges the scales by themselves and by the codes.
fn implausible(
    weight: &Fp8Weight,
    scales: &[f32],
    tally: &Tally,
    order: ScaleOrder,
) -> Option<(DefectKind, String)> {
    if order == ScaleOrder::Transposed {
        let [rows, cols] = weight.grid();
        let evidence = format!(
            "codes correlate with the scales of the transposed grid of {cols} x {rows}, and not with their own"
        );
        return Some((DefectKind::TransposedScales, evidence));
    }
    let maxima: Vec<f32> = scale_maxima(weight, scales, tally).collect();
    let largest = median(maxima);
    if largest > IMPLAUSIBLE && order != ScaleOrder::Confirmed {
        let scale = median(scales.to_vec());
        let evidence = format!(
            "the median scale {scale:.3e} makes weights of up to {largest:.1e}, while its reciprocal, {:.3e}, \
             would be plausible",
            1.0 / scale
        );
        return Some((DefectKind::ReciprocalScales, evidence));
    }
    None
}

/// Largest dequantized magnitude of each nonzero tile.
fn scale_maxima<'a>(
    weight: &'a Fp8Weight,
    scales: &'a [f32],
    tally: &'a Tally,
) -> impl Iterator<Item = f32> + 'a {
    let tiles = tally.max.iter().enumerate().filter(|(_, max)| **max > 0);
    tiles.map(|(at, max)| value(*max) * scales[scale_of_tile(weight, at)])
}

/// Index of the scale of a tile.
pub(super) fn scale_of_tile(weight: &Fp8Weight, tile: usize) -> usize {
    let ([tile_rows, tile_cols], [rows, cols]) = (weight.tiles(), weight.grid());
    let ([height, width], block) = (weight.tile(), weight.scales.block);
    let (matrix, row, col) = (tile / (tile_rows * tile_cols), tile / tile_cols % tile_rows, tile % tile_cols);
    (matrix * rows + row * height / block[0]) * cols + col * width / block[1]
}

/// Judges the scales by the original.
fn misfit(weight: &Fp8Weight, scales: &[f32], tally: &Tally) -> Option<(DefectKind, String)> {
    let cosine = median(tally.cosine.iter().copied().filter(|cosine| cosine.is_finite()).collect());
    let fitted: Vec<(usize, f32)> =
        tally.fit.iter().copied().enumerate().filter(|(_, fit)| !fit.is_nan()).collect();
    if !fitted.is_empty() && cosine < UNRELATED {
        let evidence =
            format!("its codes do not follow the original: the median cosine of a block is {cosine:.3}");
        return Some((DefectKind::OtherWeight, evidence));
    }
    let stored = |at: usize| scales[scale_of_tile(weight, at)];
    let deviation =
        |(at, fit): &(usize, f32), scale: &dyn Fn(usize) -> f32| (fit / scale(*at)).abs().ln().abs();
    let typical =
        |scale: &dyn Fn(usize) -> f32| median(fitted.iter().map(|tile| deviation(tile, scale)).collect());
    let [rows, cols] = weight.grid();
    let turned = |at: usize| {
        let (matrix, row, col) = (at / (rows * cols), at / cols % rows, at % cols);
        scales[matrix * rows * cols + col * rows + row]
    };
    // The fits of other blocks differ little, but those of the right ones much less.
    let is_far_better = |other: f32| typical(&stored) > FIT && 4.0 * other < typical(&stored);
    if weight.is_tile_per_scale() && rows > 1 && cols > 1 && is_far_better(typical(&turned)) {
        let evidence = "each scale fits the original at the transposed position of the grid".to_owned();
        return Some((DefectKind::TransposedScales, evidence));
    }
    if is_far_better(typical(&|at| 1.0 / stored(at))) {
        let evidence = "each scale is the reciprocal of the one that fits the original".to_owned();
        return Some((DefectKind::ReciprocalScales, evidence));
    }
    let misfits = fitted.iter().filter(|tile| deviation(tile, &stored) > MISFIT).count();
    // A part of a larger block may round to zero, or nearly so.
    let is_misfit = if weight.is_tile_per_scale() { misfits > 0 } else { 2 * misfits > fitted.len() };
    if !is_misfit {
        return None;
    }
    let worst = fitted.iter().max_by(|a, b| deviation(a, &stored).total_cmp(&deviation(b, &stored)))?;
    let (at, factor) = (worst.0, worst.1 / stored(worst.0));
    let is_within_two = fitted.iter().all(|(at, fit)| (0.45..2.2).contains(&(fit / stored(*at))));
    if is_within_two && 4 * misfits > fitted.len() && scales.iter().all(|scale| is_power_of_two(*scale)) {
        let evidence =
            format!("its scales are powers of two, but the original needs {factor:.3} times one of them");
        return Some((DefectKind::RoundedScales, evidence));
    }
    let width = weight.tiles()[1];
    let evidence = format!(
        "{misfits} of {} scales {} not fit the original: block ({}, {}) needs {factor:.3} times the stored one",
        fitted.len(),
        if misfits == 1 { "does" } else { "do" },
        at / width,
        at % width
    );
    Some((DefectKind::WrongScales, evidence))
}
