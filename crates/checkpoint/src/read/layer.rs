//! Weights with their scales.

use safetensors::Dtype;

use super::{Checkpoint, Tensor, TensorId};
use crate::{
    BLOCK,
    error::{CheckpointError, Result},
};

/// Naming convention of the scale tensor of `X.weight`. Both conventions store multipliers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScaleNaming {
    /// `X.weight_scale_inv`: the fine-grained fp8 format of DeepSeek and transformers.
    ScaleInv,
    /// `X.weight_scale`: compressed-tensors.
    Scale,
}

impl ScaleNaming {
    /// Suffix that is appended to the name of the weight.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::ScaleInv => "_scale_inv",
            Self::Scale => "_scale",
        }
    }

    const ALL: [Self; 2] = [Self::ScaleInv, Self::Scale];
}

/// The scales of a weight, one per 128 x 128 block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scales {
    /// The tensor that holds them.
    pub tensor: TensorId,
    /// Naming convention.
    pub naming: ScaleNaming,
    /// Its element type: F32, BF16, F16 or F8_E8M0.
    pub dtype: Dtype,
}

/// How a layer's weight is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerFormat {
    /// Floats of this type, not quantized.
    Plain(Dtype),
    /// f8e4m3fn codes with block scales.
    Fp8(Scales),
}

/// A weight matrix of a linear layer: `rows` outputs, `cols` inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Path of the module: the name of the weight without `.weight`.
    pub module: String,
    /// The weight.
    pub weight: TensorId,
    /// The N of the multiplication.
    pub rows: usize,
    /// The K of the multiplication.
    pub cols: usize,
    /// How the weight is stored.
    pub format: LayerFormat,
}

/// Replaces layer and expert numbers by `*`, so that equal layers of a model have one name.
pub fn without_numbers(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<_> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}

impl Checkpoint {
    /// Returns the layer of a 2-D weight, float or fp8 with its scales; `None` for any other tensor.
    pub fn layer(&self, weight: TensorId) -> Result<Option<Layer>> {
        let tensor = self.tensor(weight);
        let Some((rows, cols)) = tensor.matrix() else { return Ok(None) };
        if self.scale_owner(&tensor.name).is_some() {
            return Ok(None);
        }
        let module = tensor.name.strip_suffix(".weight");
        let format = match tensor.dtype {
            Dtype::F8_E4M3 => LayerFormat::Fp8(self.scales(tensor, rows, cols)?),
            Dtype::F32 | Dtype::BF16 | Dtype::F16 if module.is_some() => LayerFormat::Plain(tensor.dtype),
            _ => return Ok(None),
        };
        let module = module.unwrap_or(&tensor.name).to_owned();
        Ok(Some(Layer { module, weight, rows, cols, format }))
    }

    /// Returns every layer, and every fault in the scales.
    pub fn layers(&self) -> (Vec<Layer>, Vec<CheckpointError>) {
        let (mut layers, mut faults) = (Vec::new(), Vec::new());
        for (id, tensor) in self.tensors() {
            match self.layer(id) {
                Ok(layer) => layers.extend(layer),
                Err(fault) => faults.push(fault),
            }
            faults.extend(self.require_owner(tensor).err());
        }
        (layers, faults)
    }

    /// Returns the weight whose scales this tensor holds, judged by its name.
    pub fn scale_owner<'a>(&self, name: &'a str) -> Option<&'a str> {
        let owner = ScaleNaming::ALL.into_iter().find_map(|naming| name.strip_suffix(naming.suffix()))?;
        (owner.ends_with(".weight") || self.find(owner).is_some()).then_some(owner)
    }

    /// Rejects scales without an fp8 weight.
    pub(crate) fn require_owner(&self, scales: &Tensor) -> Result<()> {
        let Some(owner) = self.scale_owner(&scales.name) else { return Ok(()) };
        let found = match self.find(owner).map(|id| self.tensor(id).dtype) {
            // Whether other 8-bit types are supported is checked where their weight is planned.
            Some(dtype) if dtype.bitsize() <= 8 => return Ok(()),
            Some(dtype) => format!("{dtype:?}"),
            None => "missing".to_owned(),
        };
        let (scales, weight) = (scales.name.clone(), owner.to_owned());
        Err(CheckpointError::OrphanScales { scales, weight, found })
    }

    fn scales(&self, weight: &Tensor, rows: usize, cols: usize) -> Result<Scales> {
        let found = |naming: ScaleNaming| {
            let tensor = self.find(&format!("{}{}", weight.name, naming.suffix()))?;
            Some(Scales { tensor, naming, dtype: self.tensor(tensor).dtype })
        };
        let name = |scales: &Scales| self.tensor(scales.tensor).name.clone();
        let scales = match ScaleNaming::ALL.map(found) {
            [None, None] => return Err(CheckpointError::MissingScales { tensor: weight.name.clone() }),
            [Some(first), Some(second)] => {
                let (first, second) = (name(&first), name(&second));
                return Err(CheckpointError::TwoScales { tensor: weight.name.clone(), first, second });
            }
            [Some(scales), None] | [None, Some(scales)] => scales,
        };
        if !matches!(scales.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16 | Dtype::F8_E8M0) {
            let dtype = format!("{:?}", scales.dtype);
            return Err(CheckpointError::ScaleDtype { scales: name(&scales), dtype });
        }
        let needed = [rows.div_ceil(BLOCK), cols.div_ceil(BLOCK)];
        let shape = &self.tensor(scales.tensor).shape;
        if *shape != needed {
            return Err(CheckpointError::ScaleShape {
                tensor: weight.name.clone(),
                scales: name(&scales),
                rows,
                cols,
                needed,
                found: shape.clone(),
            });
        }
        Ok(scales)
    }
}
