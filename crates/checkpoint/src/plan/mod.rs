//! Planning: decides the whole output before anything is written.

mod experts;
mod output;
mod quantization_config;
mod rules;
mod tensor_parallel;

use std::collections::{HashMap, HashSet};

use octile_core::FloatKind;
use safetensors::Dtype;

pub(crate) use experts::split as split_experts;
pub use output::{OutputShard, OutputTensor};
pub use quantization_config::QuantizationConfig;
pub use rules::KeptBecause;
pub(crate) use rules::{built_in, module};
pub use tensor_parallel::RuledOut;

use crate::{
    BLOCK, Checkpoint, Convert, Format, Quantize, Request, ScaleKind,
    error::{CheckpointError, Result},
    matrix::Matrix,
    read::{Config, Layer, LayerFormat, ScaleNaming, Scales, Tensor, TensorId},
};
use output::ShardBuilder;
use rules::Rules;

/// Work that produces one or two tensors of an output shard, given by their index in it.
#[derive(Debug, Clone)]
pub(crate) enum TensorTask {
    Copy { from: TensorId, to: usize },
    Quantize { from: Matrix, name: String, kind: ScaleKind, codes: usize, scales: usize },
    Scales { from: TensorId, kind: ScaleKind, to: usize },
    Dequantize { from: Matrix, scales: TensorId, kind: FloatKind, to: usize },
    Requantize { from: Matrix, from_scales: TensorId, name: String, codes: usize, scales: usize },
}

/// A weight that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Name of the weight in the output.
    pub name: String,
    /// The N of the multiplication.
    pub rows: usize,
    /// The K of the multiplication.
    pub cols: usize,
    /// Element type before.
    pub from: Dtype,
}

/// A tensor that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Name of the tensor.
    pub name: String,
    /// Shape, outermost first.
    pub shape: Vec<usize>,
    /// Why.
    pub because: KeptBecause,
}

/// The output of a request: every shard, tensor and config entry.
#[derive(Debug, Clone)]
pub struct CheckpointPlan {
    /// The request.
    pub request: Request,
    /// The shards of the output.
    pub shards: Vec<OutputShard>,
    /// Weights that are quantized, converted or dequantized.
    pub changed: Vec<Changed>,
    /// Tensors that are copied.
    pub kept: Vec<Kept>,
    /// Fused expert tensors that are split, by name.
    pub split: Vec<String>,
    /// Degrees of tensor parallelism that the shapes rule out.
    pub ruled_out: Vec<RuledOut>,
    /// The `quantization_config` of the output; `None` if nothing in it is quantized.
    pub quantization: Option<QuantizationConfig>,
    /// Bytes of tensors in the input.
    pub input_bytes: u64,
    /// Bytes of tensors in the output.
    pub output_bytes: u64,
}

impl CheckpointPlan {
    /// Plans the output of a request on a checkpoint.
    pub fn new(checkpoint: &Checkpoint, request: &Request) -> Result<Self> {
        quantization_config::require_known(checkpoint.config())?;
        let rules = match request {
            Request::Quantize(request) => {
                let rules = Rules::new(request)?;
                rules.require_matches(
                    checkpoint
                        .tensors()
                        .map(|(_, tensor)| tensor.name.as_str())
                        .collect::<Vec<_>>()
                        .into_iter(),
                )?;
                Some(rules)
            }
            _ => None,
        };
        let mut planner = Planner {
            checkpoint,
            request,
            changed: Vec::new(),
            kept: Vec::new(),
            split: Vec::new(),
            holds_fp8: false,
            found_format: None,
        };
        let mut shards = Vec::new();
        for (at, shard) in checkpoint.shards().iter().enumerate() {
            let mut builder = ShardBuilder::default();
            for place in 0..shard.header.tensors.len() {
                planner.tensor(TensorId { shard: at, tensor: place }, rules.as_ref(), &mut builder)?;
            }
            if !builder.is_empty() || shard.header.tensors.is_empty() {
                shards.push(builder.finish(shard.name.clone(), &shard.header.metadata));
            }
        }
        let Planner { changed, kept, split, holds_fp8, found_format, .. } = planner;
        require_unique(&shards)?;
        if changed.is_empty() && !holds_fp8 {
            let path = checkpoint.path().to_owned();
            // A matrix first: vectors are never quantized.
            let first = kept.iter().find(|kept| kept.shape.len() > 1).or(kept.first());
            let first =
                first.filter(|_| rules.is_some()).map(|kept| (kept.name.clone(), kept.because.to_string()));
            return Err(CheckpointError::NothingToDo { path, action: request.action(), first });
        }
        let output =
            |format, scales| QuantizationConfig::new(format, scales, kept_modules(checkpoint, &kept));
        let quantization = match request {
            Request::Quantize(Quantize { format, scales, .. }) => Some(output(*format, *scales)),
            Request::Convert(Convert { format, scales, .. }) => {
                let scales = scales.unwrap_or_else(|| found_kind(checkpoint));
                Some(output(format.or(found_format).unwrap_or(Format::Fp8), scales))
            }
            Request::Dequantize(_) => None,
        };
        let fp8 =
            shards.iter().flat_map(|shard| &shard.tensors).filter(|tensor| tensor.dtype == Dtype::F8_E4M3);
        let input_bytes = checkpoint.tensors().map(|(_, tensor)| tensor.bytes).sum();
        let output_bytes = shards.iter().flat_map(|shard| &shard.tensors).map(|tensor| tensor.bytes).sum();
        let ruled_out = tensor_parallel::ruled_out(fp8, checkpoint.config());
        Ok(Self {
            request: request.clone(),
            shards,
            changed,
            kept,
            split,
            ruled_out,
            quantization,
            input_bytes,
            output_bytes,
        })
    }

    /// The `config.json` of the output.
    pub(crate) fn config(&self, config: &Config) -> serde_json::Result<Config> {
        let mut config = config.clone();
        match &self.quantization {
            Some(quantization) => config.set("quantization_config", quantization)?,
            None => config.remove("quantization_config"),
        }
        if let Request::Dequantize(kind) = self.request {
            let name = match kind {
                FloatKind::F32 => "float32",
                FloatKind::Bf16 => "bfloat16",
                FloatKind::F16 => "float16",
            };
            // Otherwise a loader would round the weights to the old type.
            for key in ["torch_dtype", "dtype"] {
                if config.get(key).is_some() {
                    config.set(key, &name)?;
                }
            }
        }
        Ok(config)
    }
}

/// Kind of scales in an fp8 checkpoint.
fn found_kind(checkpoint: &Checkpoint) -> ScaleKind {
    match quantization_config::says_ue8m0(checkpoint.config()) {
        true => ScaleKind::Ue8m0,
        false => ScaleKind::F32,
    }
}

/// Rejects duplicate names, which splitting experts could produce.
fn require_unique(shards: &[OutputShard]) -> Result<()> {
    let mut seen = HashMap::new();
    for shard in shards {
        for tensor in &shard.tensors {
            if let Some(first) = seen.insert(tensor.name.as_str(), &shard.name) {
                let (first, second) = (first.clone(), shard.name.clone());
                return Err(CheckpointError::DuplicateTensor { tensor: tensor.name.clone(), first, second });
            }
        }
    }
    Ok(())
}

/// Modules whose weights are not quantized; loaders must not convert them.
fn kept_modules(checkpoint: &Checkpoint, kept: &[Kept]) -> Vec<String> {
    let mut modules = Vec::new();
    for Kept { name, shape, because } in kept {
        if *because == KeptBecause::AlreadyFp8 || shape.len() < 2 {
            continue;
        }
        match (name.strip_suffix(".weight"), because) {
            (Some(module), _) => modules.push(module.to_owned()),
            // Fused experts are parameters of the module `experts` itself.
            (None, _) => {
                if let Some((module, _)) =
                    name.rsplit_once('.').filter(|(module, _)| module.ends_with("experts"))
                {
                    modules.push(module.to_owned());
                }
            }
        }
    }
    // A head tied to the embedding has no tensor of its own, but loaders still treat it as a linear layer.
    if checkpoint.config().is_some() && !modules.iter().any(|module| module.ends_with("lm_head")) {
        modules.push("lm_head".to_owned());
    }
    let mut seen = HashSet::new();
    modules.retain(|module| seen.insert(module.clone()));
    modules
}

struct Planner<'a> {
    checkpoint: &'a Checkpoint,
    request: &'a Request,
    changed: Vec<Changed>,
    kept: Vec<Kept>,
    split: Vec<String>,
    holds_fp8: bool,
    /// Layout of the first fp8 weight.
    found_format: Option<Format>,
}

impl Planner<'_> {
    fn tensor(&mut self, id: TensorId, rules: Option<&Rules>, shard: &mut ShardBuilder) -> Result<()> {
        let tensor = self.checkpoint.tensor(id);
        if self.checkpoint.scale_owner(&tensor.name).is_some() {
            // Planned with its weight, in the same shard.
            return self.checkpoint.require_owner(tensor);
        }
        if matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2) {
            return self.fp8(id, shard);
        }
        let (Some(rules), Request::Quantize(request)) = (rules, self.request) else {
            let because = if tensor.matrix().is_some() {
                KeptBecause::Dtype(tensor.dtype)
            } else {
                KeptBecause::NoMatrix
            };
            self.keep(id, because, shard);
            return Ok(());
        };
        let fused = experts::split(self.checkpoint, id, request.expert_layout);
        let because = match (rules.keep(tensor), tensor.matrix(), fused) {
            (Some(because), ..) => because,
            (None, Some((rows, cols)), _) if tensor.name.ends_with(".weight") => {
                if cols.is_multiple_of(BLOCK) {
                    let matrix = Matrix::whole(id, tensor, rows, cols);
                    self.quantize(tensor.name.clone(), matrix, request, shard);
                    return Ok(());
                }
                KeptBecause::RaggedK(cols)
            }
            (None, _, Some(Ok(matrices))) => {
                self.split.push(tensor.name.clone());
                for (name, matrix) in matrices {
                    self.quantize(name, matrix, request, shard);
                }
                return Ok(());
            }
            (None, _, Some(Err(because))) => because,
            (None, ..) => KeptBecause::NoMatrix,
        };
        self.keep(id, because, shard);
        Ok(())
    }

    fn keep(&mut self, id: TensorId, because: KeptBecause, shard: &mut ShardBuilder) {
        let Tensor { name, dtype, shape, .. } = self.checkpoint.tensor(id);
        self.kept.push(Kept { name: name.clone(), shape: shape.clone(), because });
        let to = shard.tensor(name.clone(), *dtype, shape.clone());
        shard.task(TensorTask::Copy { from: id, to });
    }

    fn quantize(&mut self, name: String, from: Matrix, request: &Quantize, shard: &mut ShardBuilder) {
        let (rows, cols) = (from.rows, from.cols);
        self.changed.push(Changed { name: name.clone(), rows, cols, from: from.dtype });
        let codes = shard.tensor(name.clone(), Dtype::F8_E4M3, vec![rows, cols]);
        let scales = scales_tensor(shard, &name, request.format, rows, cols);
        shard.task(TensorTask::Quantize { from, name, kind: request.scales, codes, scales });
    }

    /// Plans a tensor that is already fp8.
    fn fp8(&mut self, id: TensorId, shard: &mut ShardBuilder) -> Result<()> {
        let tensor = self.checkpoint.tensor(id);
        let name = tensor.name.clone();
        let Some(layer) = self.checkpoint.layer(id)? else {
            let has_scales = [ScaleNaming::ScaleInv, ScaleNaming::Scale]
                .iter()
                .any(|naming| self.checkpoint.find(&format!("{name}{}", naming.suffix())).is_some());
            let dtype = format!("{:?} of shape {:?}", tensor.dtype, tensor.shape);
            return Err(match has_scales {
                true => CheckpointError::UnsupportedFp8 { tensor: name, dtype },
                false => CheckpointError::MissingScales { tensor: name },
            });
        };
        self.holds_fp8 = true;
        let Layer { rows, cols, format: LayerFormat::Fp8(Scales { tensor: scales, naming, .. }), .. } = layer
        else {
            return Ok(());
        };
        let found = *self.found_format.get_or_insert(match naming {
            ScaleNaming::ScaleInv => Format::Fp8,
            ScaleNaming::Scale => Format::CompressedTensors,
        });
        let matrix = Matrix::whole(id, tensor, rows, cols);
        let (format, kind) = match self.request {
            Request::Dequantize(kind) => {
                self.changed.push(Changed { name: name.clone(), rows, cols, from: tensor.dtype });
                let to = shard.tensor(name, dtype_of(*kind), tensor.shape.clone());
                shard.task(TensorTask::Dequantize { from: matrix, scales, kind: *kind, to });
                return Ok(());
            }
            Request::Convert(Convert { format, scales: kind, requantize }) => {
                let format = format.unwrap_or(found);
                let kind = kind.unwrap_or_else(|| found_kind(self.checkpoint));
                self.changed.push(Changed { name: name.clone(), rows, cols, from: tensor.dtype });
                if *requantize && kind == ScaleKind::Ue8m0 {
                    let codes = shard.tensor(name.clone(), Dtype::F8_E4M3, tensor.shape.clone());
                    let to = scales_tensor(shard, &name, format, rows, cols);
                    shard.task(TensorTask::Requantize {
                        from: matrix,
                        from_scales: scales,
                        name,
                        codes,
                        scales: to,
                    });
                    return Ok(());
                }
                (format, kind)
            }
            Request::Quantize(Quantize { format, scales, .. }) => {
                let because = KeptBecause::AlreadyFp8;
                self.kept.push(Kept { name: name.clone(), shape: tensor.shape.clone(), because });
                (*format, *scales)
            }
        };
        let to = shard.tensor(name.clone(), Dtype::F8_E4M3, tensor.shape.clone());
        shard.task(TensorTask::Copy { from: id, to });
        let to = scales_tensor(shard, &name, format, rows, cols);
        shard.task(TensorTask::Scales { from: scales, kind, to });
        Ok(())
    }
}

fn scales_tensor(shard: &mut ShardBuilder, weight: &str, format: Format, rows: usize, cols: usize) -> usize {
    let naming = match format {
        Format::Fp8 => ScaleNaming::ScaleInv,
        Format::CompressedTensors => ScaleNaming::Scale,
    };
    let shape = vec![rows.div_ceil(BLOCK), cols.div_ceil(BLOCK)];
    shard.tensor(format!("{weight}{}", naming.suffix()), Dtype::F32, shape)
}

fn dtype_of(kind: FloatKind) -> Dtype {
    match kind {
        FloatKind::F32 => Dtype::F32,
        FloatKind::Bf16 => Dtype::BF16,
        FloatKind::F16 => Dtype::F16,
    }
}
