//! Operands from a tensor file.

use std::path::Path;

use anyhow::{Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use safetensors::{Dtype, tensor::TensorView};

use super::Expected;
use crate::{print::shown, tensor_file};

/// Operands and expected result of a kernel.
pub(super) struct Tensors {
    /// Names of the operands, in order.
    pub names: Vec<String>,
    /// The operands.
    pub operands: Vec<Tensor>,
    /// The expected result.
    pub expected: Option<Expected>,
}

/// Reads the operands and the expected result.
pub(super) fn read(path: &Path, operands: &[String], expect: Option<&str>) -> Result<Tensors> {
    let name = shown(path);
    let bytes = tensor_file::bytes(path)?;
    let file = tensor_file::tensors(path, &bytes)?;
    let mut stored = file.tensors();
    stored.sort_by_key(|(_, tensor)| tensor.data().as_ptr());
    let find = |wanted: &str| match stored.iter().find(|(name, _)| name == wanted) {
        Some(found) => Ok(found),
        None => {
            let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
            bail!("{name} has no tensor '{wanted}', only {}", names.join(", "))
        }
    };
    let is_operand = |tensor: &&(String, TensorView<'_>)| {
        let name = tensor.0.as_str();
        Some(name) != expect && name != "out" && !name.starts_with("reference")
    };
    let inputs: Vec<_> = match operands {
        [] => stored.iter().filter(is_operand).collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    let expected = expect.map(find).transpose()?;
    Ok(Tensors {
        names: inputs.iter().map(|(name, _)| name.clone()).collect(),
        operands: inputs.iter().map(|(name, tensor)| convert(name, tensor)).collect::<Result<_>>()?,
        expected: expected.map(|(name, tensor)| convert_expected(name, tensor)).transpose()?,
    })
}

/// Converts the expected tensor, which may also be f64.
fn convert_expected(name: &str, tensor: &TensorView<'_>) -> Result<Expected> {
    if tensor.dtype() == Dtype::F64 {
        let values = tensor.data().as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        return Ok(Expected { element: None, shape: tensor.shape().to_vec(), values: values.collect() });
    }
    Ok(Expected::of(&convert(name, tensor)?))
}

fn convert(name: &str, tensor: &TensorView<'_>) -> Result<Tensor> {
    let element = match tensor.dtype() {
        Dtype::F32 => Element::Float(Float::F32),
        Dtype::BF16 => Element::Float(Float::Bf16),
        Dtype::F16 => Element::Float(Float::F16),
        Dtype::F8_E4M3 => Element::Float(Float::F8E4M3FN),
        Dtype::F8_E5M2 => Element::Float(Float::F8E5M2),
        Dtype::BOOL | Dtype::I8 | Dtype::U8 => Element::Integer(1),
        Dtype::I16 | Dtype::U16 => Element::Integer(2),
        Dtype::I32 | Dtype::U32 => Element::Integer(4),
        other => bail!(
            "tensor '{name}' has unsupported type {other:?}: convert it to f32, bf16, f16, f8 or an integer up \
             to 32 bits"
        ),
    };
    Ok(Tensor { element, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec() })
}
