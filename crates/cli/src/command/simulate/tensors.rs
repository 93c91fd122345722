//! Operands and expected results from a tensor file.

use anyhow::{Context, Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::{Expected, matching::Candidate};

/// The tensors of a file, in stored order.
pub(super) struct TensorFile<'f> {
    name: &'f str,
    stored: Vec<(String, TensorView<'f>)>,
}

impl<'f> TensorFile<'f> {
    /// Takes the tensors of the file of this name.
    pub(super) fn new(name: &'f str, file: &SafeTensors<'f>) -> Self {
        let mut stored = file.tensors();
        stored.sort_by_key(|(_, tensor)| tensor.data().as_ptr());
        Self { name, stored }
    }

    fn find(&self, wanted: &str) -> Result<&TensorView<'f>> {
        match self.stored.iter().find(|(name, _)| name == wanted) {
            Some((_, tensor)) => Ok(tensor),
            None => {
                let names: Vec<&str> = self.stored.iter().map(|(name, _)| name.as_str()).collect();
                bail!("{} has no tensor '{wanted}', only {}", self.name, names.join(", "))
            }
        }
    }

    /// Tensors that may be operands: not expected, and not named like a result.
    pub(super) fn candidates(&self, expect: &[String]) -> Vec<Candidate> {
        let operands = self.stored.iter().filter(|(name, _)| {
            !is_result_name(name) && !name.starts_with("reference") && !expect.contains(name)
        });
        let candidate = |(name, tensor): &(String, TensorView<'f>)| Candidate {
            name: name.clone(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        };
        operands.map(candidate).collect()
    }

    /// Reads an operand; converts it where JAX would.
    pub(super) fn operand(&self, name: &str, wanted: Option<Element>) -> Result<Tensor> {
        let tensor = self.find(name)?;
        match (tensor.dtype(), wanted) {
            (Dtype::F64, Some(element @ Element::Float(Float::F32))) => {
                let values = wide(tensor, f64::from_le_bytes).map(|value| value as f32);
                Ok(Tensor::from_f32(element, tensor.shape(), values.collect()))
            }
            (Dtype::I64 | Dtype::U64, Some(element @ Element::Integer(4))) => {
                let narrow = |value: i64| {
                    let fits = i32::try_from(value).is_ok() || u32::try_from(value).is_ok();
                    let bytes = fits.then(|| (value as i32).to_le_bytes());
                    bytes.with_context(|| format!("tensor '{name}' holds {value}, which does not fit i32"))
                };
                let bytes = wide(tensor, i64::from_le_bytes).map(narrow).collect::<Result<Vec<_>>>()?;
                Ok(Tensor { element, shape: tensor.shape().to_vec(), bytes: bytes.concat().into() })
            }
            _ => convert(name, tensor),
        }
    }

    /// Reads an expected result, which may also be f64.
    pub(super) fn expected(&self, name: &str) -> Result<Expected> {
        let tensor = self.find(name)?;
        if tensor.dtype() == Dtype::F64 {
            let (shape, values) = (tensor.shape().to_vec(), wide(tensor, f64::from_le_bytes).collect());
            return Ok(Expected { name: name.to_owned(), element: None, shape, values });
        }
        Ok(Expected::of(name, &convert(name, tensor)?))
    }
}

/// Whether a name is `out`, `out0`, `out_1` and so on.
fn is_result_name(name: &str) -> bool {
    name.strip_prefix("out")
        .is_some_and(|rest| rest.trim_start_matches('_').bytes().all(|byte| byte.is_ascii_digit()))
}

fn wide<T>(tensor: &TensorView<'_>, element: fn([u8; 8]) -> T) -> impl Iterator<Item = T> {
    tensor.data().as_chunks().0.iter().map(move |bytes| element(*bytes))
}

/// The element type of tensors with this dtype.
pub(super) fn element(dtype: Dtype) -> Option<Element> {
    Some(match dtype {
        Dtype::F32 => Element::Float(Float::F32),
        Dtype::BF16 => Element::Float(Float::Bf16),
        Dtype::F16 => Element::Float(Float::F16),
        Dtype::F8_E4M3 => Element::Float(Float::F8E4M3FN),
        Dtype::F8_E5M2 => Element::Float(Float::F8E5M2),
        Dtype::BOOL | Dtype::I8 | Dtype::U8 => Element::Integer(1),
        Dtype::I16 | Dtype::U16 => Element::Integer(2),
        Dtype::I32 | Dtype::U32 => Element::Integer(4),
        _ => return None,
    })
}

/// The dtype of stored results.
pub(super) fn dtype(element: Element) -> Result<Dtype> {
    Ok(match element {
        Element::Float(Float::F32) => Dtype::F32,
        Element::Float(Float::Bf16) => Dtype::BF16,
        Element::Float(Float::F16) => Dtype::F16,
        Element::Float(Float::F8E4M3FN) => Dtype::F8_E4M3,
        Element::Float(Float::F8E5M2) => Dtype::F8_E5M2,
        Element::Integer(1) => Dtype::I8,
        Element::Integer(2) => Dtype::I16,
        Element::Integer(4) => Dtype::I32,
        other => bail!("a result of type {other} cannot be saved as safetensors"),
    })
}

fn convert(name: &str, tensor: &TensorView<'_>) -> Result<Tensor> {
    let Some(element) = element(tensor.dtype()) else {
        bail!(
            "tensor '{name}' has unsupported type {:?}: convert it to f32, bf16, f16, f8 or an integer up to \
             32 bits",
            tensor.dtype()
        )
    };
    Ok(Tensor { element, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec().into() })
}

/// Serializes results as `out`, or as `out0`, `out1` and so on.
pub(super) fn serialized(results: &[Tensor]) -> Result<Vec<u8>> {
    let name = |number: usize| match results.len() {
        1 => "out".to_owned(),
        _ => format!("out{number}"),
    };
    let mut views = Vec::with_capacity(results.len());
    for (number, tensor) in results.iter().enumerate() {
        let view = TensorView::new(dtype(tensor.element)?, tensor.shape.clone(), &tensor.bytes)?;
        views.push((name(number), view));
    }
    Ok(safetensors::serialize(views, None)?)
}
