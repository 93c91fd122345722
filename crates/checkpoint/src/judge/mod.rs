//! Judging a checkpoint: what every weight is, what quantization cost, and what is wrong.

mod codes;
mod config;
mod defect;
mod format;
mod kept;
mod kept_modules;
mod layer;
mod order;
mod original;
mod stream;
mod total_size;
mod values;
mod wording;

use serde::Serialize;

pub use codes::Histogram;
pub use defect::{Defect, DefectKind};
pub use format::Granularity;
pub use layer::{CodeSummary, JudgedLayer, ScaleSummary, Snr, SnrSource};
pub use order::ScaleOrder;

use crate::{
    Checkpoint, CheckpointError, Dtype, Progress, Survey, error::Result, read::TensorId, write::thread_count,
};
use config::{Declared, Weight};
use format::{Fp8Weight, Kind};
use kept::Pairs;
use stream::Stream;
use values::FloatTensors;

/// A checkpoint whose files were read, ready to be judged.
#[derive(Debug)]
pub struct Judge {
    survey: Survey,
    against: Option<Checkpoint>,
    weights: Vec<Fp8Weight>,
    described: Vec<(TensorId, Option<&'static str>)>,
    /// What is not quantized, beside the original.
    kept: Pairs,
    /// What is not fp8.
    floats: FloatTensors,
    defects: Vec<Defect>,
}

/// The verdict on a checkpoint.
#[derive(Debug, Serialize)]
pub struct Judgement {
    /// Summary of all weights.
    pub summary: ModelSummary,
    /// What is wrong.
    pub defects: Vec<Defect>,
    /// Every weight, in the order of the files.
    pub layers: Vec<JudgedLayer>,
}

/// Sums over a checkpoint.
#[derive(Debug, Default, Serialize)]
pub struct ModelSummary {
    /// Number of shards.
    pub shards: usize,
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Values in all tensors, without scales.
    pub values: u64,
    /// Average bits per value, scales included.
    pub bits_per_value: f64,
    /// fp8 weights that were read.
    pub fp8_weights: usize,
    /// Values in them.
    pub fp8_values: u64,
    /// Average bits per value of the fp8 weights, scales included.
    pub fp8_bits_per_value: f64,
    /// Weights in other formats, listed only.
    pub other_weights: usize,
    /// `quant_method` of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quant_method: Option<String>,
    /// Signal-to-quantization-noise ratio of all fp8 weights together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr: Option<Snr>,
    /// Number of codes by magnitude: index 0 is zero, 126 is 448, 127 is NaN.
    pub codes_by_magnitude: Vec<u64>,
    /// Weights whose scales may be transposed for all the codes show.
    pub order_not_observable: usize,
}

impl Judge {
    /// Judges what names, types, shapes and the config show. Fails if there is nothing to judge.
    pub fn new(survey: Survey, against: Option<Checkpoint>) -> Result<Self> {
        let is_damaged = |fault: &CheckpointError| {
            let kind = Defect::from(fault).kind;
            kind != DefectKind::UnreadableFile || matches!(fault, CheckpointError::BadTensor { .. })
        };
        let Survey { checkpoint, mut faults } = survey;
        if checkpoint.shards().is_empty() && !faults.iter().any(is_damaged) && !faults.is_empty() {
            return Err(faults.swap_remove(0));
        }
        let declared = Declared::new(checkpoint.config());
        let is_complete = !faults.iter().any(hides_tensors);
        let mut defects: Vec<_> = faults.iter().map(Defect::from).collect();
        let (mut weights, mut described) = (Vec::new(), Vec::new());
        for (id, _) in checkpoint.tensors() {
            match format::classify(&checkpoint, id, &declared, &mut defects) {
                Kind::Fp8(weight) => weights.push(weight),
                Kind::Described(id, why) => described.push((id, why)),
                Kind::NotAWeight => {}
            }
        }
        if !is_complete {
            // The weights, or the scales, may be in the file that cannot be read.
            defects
                .retain(|found| !matches!(found.kind, DefectKind::OrphanScales | DefectKind::MissingScales));
        }
        if faults.is_empty() && checkpoint.index().is_none() && checkpoint.shards().len() > 1 {
            defects.push(Defect::without_index(checkpoint.shards().len()));
        }
        if faults.is_empty() {
            defects.extend(total_size::compare(&checkpoint));
        }
        let is_whole = faults.is_empty() && checkpoint.is_folder();
        let spoken: Vec<_> = spoken(&checkpoint, &weights, &described);
        defects.extend(config::compare(&checkpoint, &declared, &spoken, is_whole));
        if let Some(against) = &against {
            let is_there = |weight: &Fp8Weight| {
                let name = &checkpoint.tensor(weight.tensor).name;
                original::find(against, name, weight).is_ok_and(|found| found.is_ok())
            };
            if !weights.is_empty() && !weights.iter().any(is_there) {
                let path = against.path().to_owned();
                return Err(CheckpointError::NothingInCommon { path });
            }
        }
        let kept = match &against {
            Some(against) => Pairs::new(&checkpoint, against, is_complete, &mut defects),
            None => Pairs::default(),
        };
        for (id, why) in &mut described {
            if kept.not_compared.contains(id) && why.is_none() {
                *why = Some("not compared: the original is stored differently");
            }
        }
        let floats = FloatTensors::new(&checkpoint);
        Ok(Self { survey: Survey { checkpoint, faults }, against, weights, described, kept, floats, defects })
    }

    /// Bytes that [`Judge::run`] will read.
    pub fn bytes(&self) -> u64 {
        let checkpoint = &self.survey.checkpoint;
        let bytes = |weight: &Fp8Weight| {
            let tensor = checkpoint.tensor(weight.tensor);
            let original = self
                .against
                .as_ref()
                .and_then(|against| against.find(&tensor.name).map(|id| against.tensor(id)));
            tensor.bytes + original.map_or(0, |original| original.bytes)
        };
        let kept = self.against.as_ref().map_or(0, |against| self.kept.bytes(checkpoint, against));
        self.weights.iter().map(bytes).sum::<u64>() + kept + self.floats.bytes(checkpoint)
    }

    /// Reads every tensor once, a few rows at a time, on `threads` threads or one per core.
    pub fn run(self, threads: Option<usize>, progress: &dyn Progress) -> Result<Judgement> {
        let Self {
            survey: Survey { checkpoint, .. },
            against,
            weights,
            described,
            kept,
            floats,
            mut defects,
        } = self;
        let stream =
            Stream { checkpoint: &checkpoint, against: against.as_ref(), weights: &weights, progress };
        let threads = thread_count(threads);
        let judged = stream.run(threads)?;
        let mut summary = summary(&checkpoint);
        let (mut histogram, mut layers) = (Histogram::default(), Vec::new());
        for (_, layer, codes, found) in judged {
            histogram.add(&codes);
            defects.extend(found);
            layers.push(layer);
        }
        defects.extend(rounded(&layers));
        if Declared::new(checkpoint.config()).is_ue8m0 {
            defects.extend(not_ue8m0(&layers));
        }
        let mut not_finite = floats.judge(&checkpoint, threads, progress)?;
        if let Some(against) = &against {
            let changed = kept.compare(&checkpoint, against, progress)?;
            // One fault is one defect.
            not_finite.retain(|found| !changed.iter().any(|other| other.tensor == found.tensor));
            defects.extend(changed);
        }
        defects.extend(not_finite);
        let fp8_bytes: u64 = layers.iter().map(|layer| layer.bytes).sum();
        summary.fp8_weights = layers.len();
        summary.fp8_values = histogram.total();
        summary.fp8_bits_per_value = 8.0 * fp8_bytes as f64 / histogram.total().max(1) as f64;
        summary.snr = overall(&layers);
        summary.order_not_observable = layers.iter().filter(|layer| is_unknown(layer)).count();
        summary.codes_by_magnitude = histogram.0.to_vec();
        summary.other_weights = described.len();
        let ids = weights.iter().map(|weight| weight.tensor);
        let mut all: Vec<_> = ids.zip(layers).collect();
        all.extend(described.iter().map(|(id, why)| (*id, listed(&checkpoint, *id, *why))));
        all.sort_by_key(|(id, _)| *id);
        defects.sort_by_key(|defect| defect.kind);
        Ok(Judgement { summary, defects, layers: all.into_iter().map(|(_, layer)| layer).collect() })
    }
}

/// Finds scales that are not powers of two where the config declares them.
fn not_ue8m0(layers: &[JudgedLayer]) -> Option<Defect> {
    // Scales that cannot be multiplied with are reported by themselves.
    let is_other = |layer: &&JudgedLayer| {
        layer.scales.as_ref().is_some_and(|scales| !scales.powers_of_two && scales.min > 0.0)
    };
    let first = layers.iter().find(is_other)?;
    let count = layers.iter().filter(is_other).count();
    let evidence = format!(
        "config.json declares scale_fmt ue8m0, but the scales are not powers of two ({})",
        wording::counted(count, "weight")
    );
    Some(Defect::of_config(Some(&first.name), evidence))
}

/// Whether tensors may exist that were not seen.
fn hides_tensors(fault: &CheckpointError) -> bool {
    let kind = Defect::from(fault).kind;
    matches!(kind, DefectKind::TruncatedShard | DefectKind::UnreadableFile)
        || matches!(fault, CheckpointError::MissingShard { .. } | CheckpointError::MissingMember { .. })
}

/// The weights as the config speaks of them.
fn spoken<'a>(
    checkpoint: &'a Checkpoint,
    weights: &[Fp8Weight],
    described: &[(TensorId, Option<&'static str>)],
) -> Vec<Weight<'a>> {
    let fp8 = weights.iter().map(|weight| Weight {
        name: &checkpoint.tensor(weight.tensor).name,
        is_fp8: true,
        is_e5m2: false,
        block: Some(weight.scales.block),
        scales: Some(&checkpoint.tensor(weight.scales.tensor).name),
        is_plain_matrix: false,
    });
    let others = described.iter().map(|(id, _)| {
        let tensor = checkpoint.tensor(*id);
        let is_fp8 = matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2);
        let is_float = matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16);
        let is_plain_matrix = is_float && tensor.matrix().is_some() && tensor.name.ends_with(".weight");
        let is_e5m2 = tensor.dtype == Dtype::F8_E5M2;
        Weight { name: &tensor.name, is_fp8, is_e5m2, block: None, scales: None, is_plain_matrix }
    });
    fp8.chain(others).collect()
}

fn summary(checkpoint: &Checkpoint) -> ModelSummary {
    let mut summary = ModelSummary { shards: checkpoint.shards().len(), ..ModelSummary::default() };
    for (_, tensor) in checkpoint.tensors() {
        summary.tensors += 1;
        summary.bytes += tensor.bytes;
        if checkpoint.scale_owner(&tensor.name).is_none() {
            summary.values += 8 * tensor.bytes / (tensor.dtype.bitsize() as u64).max(1);
        }
    }
    summary.bits_per_value = 8.0 * summary.bytes as f64 / summary.values.max(1) as f64;
    summary.quant_method = Declared::new(checkpoint.config()).method;
    summary
}

fn listed(checkpoint: &Checkpoint, id: TensorId, not_judged: Option<&'static str>) -> JudgedLayer {
    let tensor = checkpoint.tensor(id);
    JudgedLayer {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        dtype: format!("{:?}", tensor.dtype),
        bytes: tensor.bytes,
        not_judged,
        scales: None,
        codes: None,
        snr: None,
    }
}

fn is_unknown(layer: &JudgedLayer) -> bool {
    layer.scales.as_ref().is_some_and(|scales| scales.order == ScaleOrder::NotObservable)
}

/// Ratio of the sums of all layers.
fn overall(layers: &[JudgedLayer]) -> Option<Snr> {
    let (mut signal, mut noise, mut source) = (0.0, 0.0, None);
    for layer in layers {
        let (Some(codes), Some(snr)) = (&layer.codes, layer.snr) else { continue };
        let power = codes.rms * codes.rms * codes.total as f64;
        if !power.is_finite() {
            continue;
        }
        signal += power;
        noise += snr.db.map_or(0.0, |db| power / 10f64.powf(db / 10.0));
        // Measured only if all are.
        source = match (source, snr.source) {
            (None | Some(SnrSource::Original), SnrSource::Original) => Some(SnrSource::Original),
            _ => Some(SnrSource::Codes),
        };
    }
    Snr::new(signal, noise, source?)
}

/// Finds power-of-two scales that were rounded without adjusting the codes.
///
/// Rounding a scale up before quantizing leaves the largest code of a block anywhere between 224 and 448. If
/// it is 448 in nearly every block of nearly every layer, the codes were made with other scales.
fn rounded(layers: &[JudgedLayer]) -> Vec<Defect> {
    let parts = |layer: &JudgedLayer| {
        let (scales, codes) = (layer.scales.as_ref()?, layer.codes.as_ref()?);
        let is_measured = layer.snr.is_some_and(|snr| snr.source == SnrSource::Original);
        let applies = scales.powers_of_two && scales.granularity == Granularity::Block && !is_measured;
        applies.then_some((scales.min, scales.max, codes.blocks - codes.zero_blocks, codes.full_range_blocks))
    };
    const FEWEST: usize = 32;
    let all: Vec<_> = layers.iter().filter_map(parts).collect();
    let (blocks, full) = all.iter().fold((0, 0), |(blocks, full), part| (blocks + part.2, full + part.3));
    let bounds =
        |side: fn(f32, f32) -> f32, start| all.iter().fold(start, |at, part| side(at, side(part.0, part.1)));
    // Equal scales everywhere may be those of weights that were initialized uniformly.
    let is_uniform = bounds(f32::min, f32::INFINITY) == bounds(f32::max, 0.0);
    if blocks < FEWEST || full * 10 < blocks * 9 || is_uniform {
        return Vec::new();
    }
    let found = layers.iter().filter_map(|layer| Some((layer, parts(layer)?)));
    let found = found.filter(|(_, (.., blocks, full))| full * 10 >= blocks * 9 && *blocks > 0);
    found
        .map(|(layer, (.., blocks, full))| {
            let evidence = format!(
                "its scales are powers of two, but {full} of {blocks} blocks reach the code 448, as they do with \
                 other scales"
            );
            Defect::of(DefectKind::RoundedScales, &layer.name, evidence)
        })
        .collect()
}
