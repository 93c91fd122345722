//! A weight in 8-bit floats.

use std::sync::Arc;

use half::{bf16, f16};
use octile_core::{Mat, QuantizedWeight};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Block, Error, Float, WeightRef};

/// A weight of N x K codes (f8e4m3fn) with one f32 scale per block. A value is its code times its scale.
///
/// Clones share their memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight(Arc<QuantizedWeight>);

/// Names of the tensor of scales beside `weight`; both hold multipliers.
const SCALE_NAMES: [&str; 2] = ["weight_scale_inv", "weight_scale"];

impl Weight {
    /// Quantizes the rows of a weight of `[n, k]`: scale = largest magnitude / 448 in every block.
    ///
    /// ```
    /// use octile::{Block, Weight};
    ///
    /// let weight = Weight::quantize(&[0.5f32; 300 * 200], [300, 200], Block::B128)?;
    /// assert_eq!(weight.scales().len(), 3 * 2);
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn quantize<T: Float>(values: &[T], [n, k]: [usize; 2], block: Block) -> Result<Self, Error> {
        let values: Vec<f32> = values.iter().map(|value| value.widen()).collect();
        Ok(Self(Arc::new(QuantizedWeight::quantize(Mat::new(&values, n, k)?, block)?)))
    }

    /// Takes a weight of `[n, k]` codes with row-major scales, as checkpoints hold it.
    ///
    /// ```
    /// use octile::{Block, Weight};
    ///
    /// let weight = Weight::from_parts(&[0x38; 6], &[2.0], [2, 3], Block::B128)?;
    /// assert_eq!(weight.dequantize(), [2.0; 6]);
    /// # Ok::<(), octile::Error>(())
    /// ```
    pub fn from_parts(codes: &[u8], scales: &[f32], [n, k]: [usize; 2], block: Block) -> Result<Self, Error> {
        Ok(Self(Arc::new(QuantizedWeight::from_parts(Mat::new(codes, n, k)?, scales, block)?)))
    }

    /// Reads the weight of a layer from the bytes of a safetensors file, mapped into memory or read.
    ///
    /// The layer `name` has the tensors `name.weight` in F8_E4M3 and `name.weight_scale_inv` (DeepSeek, Qwen)
    /// or `name.weight_scale` (compressed-tensors) in F32, BF16, F16 or F8_E8M0. The block size follows from
    /// their shapes.
    ///
    /// ```no_run
    /// use octile::Weight;
    ///
    /// let file = std::fs::read("model-00001-of-00004.safetensors")?;
    /// let weight = Weight::from_safetensors(&file, "model.layers.0.mlp.up_proj")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_safetensors(file: &[u8], name: &str) -> Result<Self, Error> {
        let file = SafeTensors::deserialize(file).map_err(|error| Error::Safetensors(Box::new(error)))?;
        let weight_name = format!("{name}.weight");
        let weight = file.tensor(&weight_name).map_err(|_| missing(&weight_name))?;
        let found = SCALE_NAMES.iter().find_map(|suffix| {
            let scale_name = format!("{name}.{suffix}");
            file.tensor(&scale_name).ok().map(|scales| (scale_name, scales))
        });
        let (scale_name, scales) = found.ok_or_else(|| missing(&format!("{name}.{}", SCALE_NAMES[0])))?;

        let (&[n, k], Dtype::F8_E4M3) = (weight.shape(), weight.dtype()) else {
            let problem = format!("{:?} {:?}, expected F8_E4M3 [N, K]", weight.dtype(), weight.shape());
            return Err(Error::Tensor { name: weight_name, problem });
        };
        let has_shape = |block: &Block| scales.shape() == [block.count(n), block.count(k)];
        let Some(block) = Block::ALL.into_iter().find(has_shape) else {
            let shape = scales.shape();
            let problem =
                format!("scales of {shape:?} for [{n}, {k}]: expected one per block of 128, 256 or 512");
            return Err(Error::Tensor { name: scale_name, problem });
        };
        let scales = decode_scales(&scales).ok_or_else(|| Error::Tensor {
            name: scale_name,
            problem: format!("dtype {:?}, expected F32, BF16, F16 or F8_E8M0", scales.dtype()),
        })?;
        Self::from_parts(weight.data(), &scales, [n, k], block)
    }

    /// Rows and columns: N and K.
    pub fn shape(&self) -> [usize; 2] {
        [self.0.rows(), self.0.cols()]
    }

    /// Side of the square that shares a scale.
    pub fn block(&self) -> Block {
        self.0.quant_block()
    }

    /// The f8e4m3fn codes, row by row.
    pub fn codes(&self) -> &[u8] {
        self.0.codes()
    }

    /// The scales, block row by block row.
    pub fn scales(&self) -> &[f32] {
        self.0.scales()
    }

    /// The values that codes and scales stand for.
    pub fn dequantize(&self) -> Vec<f32> {
        self.0.dequantize()
    }

    /// The weight as the operand of a [`MatmulOp`](crate::MatmulOp).
    pub fn as_rows(&self) -> WeightRef<'_> {
        WeightRef::Rows { codes: self.codes(), scales: self.scales() }
    }

    pub(crate) fn quantized(&self) -> &QuantizedWeight {
        &self.0
    }
}

fn missing(name: &str) -> Error {
    let problem = "not in this file: check the layer's name, or read another shard".to_owned();
    Error::Tensor { name: name.to_owned(), problem }
}

fn decode_scales(scales: &TensorView<'_>) -> Option<Vec<f32>> {
    let bytes = scales.data();
    Some(match scales.dtype() {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::F8_E8M0 => bytes.iter().map(|b| 2f32.powi(i32::from(*b) - 127)).collect(),
        _ => return None,
    })
}
