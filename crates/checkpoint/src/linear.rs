//! The linear layers of a model, with weights that can be loaded one at a time.

use half::{bf16, f16};
use octile_core::{Mat, QuantBlock, QuantizedWeight};
use safetensors::Dtype;

use crate::{
    Checkpoint, CheckpointPlan, Quantize, Request,
    error::{CheckpointError, Result},
    matrix::{Matrix, elements},
    plan::TensorTask,
    read::{LayerFormat, Scales},
};

/// A weight that Octile multiplies with.
#[derive(Debug, Clone)]
pub struct LinearLayer {
    /// Path of the module.
    pub module: String,
    /// The N of the multiplication.
    pub rows: usize,
    /// The K of the multiplication.
    pub cols: usize,
    matrix: Matrix,
    scales: Option<Scales>,
}

impl Checkpoint {
    /// Returns the fp8 layers or, in a checkpoint without any, those that [`Quantize`] would quantize.
    pub fn linear_layers(&self) -> Result<Vec<LinearLayer>> {
        let mut layers = Vec::new();
        for (id, tensor) in self.tensors().filter(|(_, tensor)| tensor.dtype == Dtype::F8_E4M3) {
            let Some(layer) = self.layer(id)? else { continue };
            if let LayerFormat::Fp8(scales) = layer.format {
                let matrix = Matrix::whole(id, tensor, layer.rows, layer.cols);
                let scales = Some(scales);
                layers.push(LinearLayer {
                    module: layer.module,
                    rows: layer.rows,
                    cols: layer.cols,
                    matrix,
                    scales,
                });
            }
        }
        if layers.is_empty() {
            let plan = CheckpointPlan::new(self, &Request::Quantize(Quantize::default()))?;
            for task in plan.shards.iter().flat_map(|shard| &shard.tasks) {
                if let TensorTask::Quantize { from, name, .. } = task {
                    let module = name.strip_suffix(".weight").unwrap_or(name).to_owned();
                    layers.push(LinearLayer {
                        module,
                        rows: from.rows,
                        cols: from.cols,
                        matrix: *from,
                        scales: None,
                    });
                }
            }
        }
        Ok(layers)
    }
}

impl LinearLayer {
    /// Whether the weight is stored in fp8; otherwise loading quantizes it.
    pub fn is_fp8(&self) -> bool {
        self.scales.is_some()
    }

    /// Reads the whole weight, and quantizes it if it is not fp8.
    pub fn load(&self, checkpoint: &Checkpoint) -> Result<QuantizedWeight> {
        let (rows, cols, count) = (self.rows, self.cols, self.rows * self.cols);
        let file = checkpoint.shards()[self.matrix.shard].open()?;
        let mut input = Vec::new();
        self.matrix.read(&file, &(0..rows), &(0..cols), &mut input, &mut Vec::new())?;
        let bad = |error: octile_core::QuantizeError| CheckpointError::BadWeight {
            module: self.module.clone(),
            why: error.to_string(),
        };
        let shape = |error: octile_core::ShapeError| bad(error.into());
        if let Some(scales) = &self.scales {
            let codes = Mat::new(elements::<u8>(&input, count), rows, cols).map_err(shape)?;
            let scales = checkpoint.read_scales(scales)?;
            return QuantizedWeight::from_parts(codes, &scales, QuantBlock::B128).map_err(bad);
        }
        let values: Vec<f32> = match self.matrix.dtype {
            Dtype::BF16 => elements::<bf16>(&input, count).iter().map(|value| value.to_f32()).collect(),
            Dtype::F16 => elements::<f16>(&input, count).iter().map(|value| value.to_f32()).collect(),
            _ => elements::<f32>(&input, count).to_vec(),
        };
        drop(input);
        QuantizedWeight::quantize(Mat::new(&values, rows, cols).map_err(shape)?, QuantBlock::B128)
            .map_err(bad)
    }
}
