//! Operands from a file.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// The operands and the expected result.
pub fn read(path: &Path, operands: &[String], expect: Option<&str>) -> Result<(Vec<Tensor>, Option<Tensor>)> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let file =
        SafeTensors::deserialize(&bytes).with_context(|| format!("{name} is not a safetensors file"))?;
    let mut stored = file.tensors();
    stored.sort_by_key(|(_, tensor)| tensor.data().as_ptr());
    let find = |wanted: &str| match stored.iter().find(|(name, _)| name == wanted) {
        Some((name, tensor)) => convert(name, tensor),
        None => {
            let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
            bail!("{name} holds no tensor '{wanted}'; it holds {}", names.join(", "))
        }
    };
    let is_operand = |tensor: &&(String, TensorView<'_>)| {
        let name = tensor.0.as_str();
        Some(name) != expect && name != "out" && !name.starts_with("reference")
    };
    let inputs: Result<Vec<Tensor>> = match operands {
        [] => stored.iter().filter(is_operand).map(|(name, tensor)| convert(name, tensor)).collect(),
        names => names.iter().map(|name| find(name)).collect(),
    };
    Ok((inputs?, expect.map(find).transpose()?))
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
        other => bail!("tensor '{name}' holds {other:?}, which no kernel takes here"),
    };
    Ok(Tensor { element, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec() })
}
