//! Kernels and tensors that tests run.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::{fs, io::Read, path::PathBuf};

use octile_mosaic::{
    Float,
    interpret::{Element, Tensor},
};
use safetensors::{Dtype, SafeTensors};

/// One core of a tpu7x.
pub fn rates() -> octile_core::device::tpu::TpuRates {
    octile_core::device::tpu::TpuChip::named("tpu7x").expect("the chip is known").rates
}

pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub fn text(folder_name: &str, kernel: &str) -> String {
    let path = folder(folder_name).join(format!("{kernel}.mlir"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tensors of a file in the order in which they are stored, with their names.
pub fn tensors(folder_name: &str, set: &str) -> Vec<(String, Tensor)> {
    let path = folder(folder_name).join(format!("{set}.safetensors.gz"));
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("the file is gzip");
    let file = SafeTensors::deserialize(&bytes).expect("the file is safetensors");
    let mut tensors = file.tensors();
    tensors.sort_by_key(|(_, tensor)| tensor.data().as_ptr());
    let convert = |(name, tensor): (String, safetensors::tensor::TensorView<'_>)| {
        let element = match tensor.dtype() {
            Dtype::F32 => Element::Float(Float::F32),
            Dtype::BF16 => Element::Float(Float::Bf16),
            Dtype::F16 => Element::Float(Float::F16),
            Dtype::F8_E4M3 => Element::Float(Float::F8E4M3FN),
            Dtype::F8_E5M2 => Element::Float(Float::F8E5M2),
            Dtype::I8 | Dtype::U8 | Dtype::BOOL => Element::Integer(1),
            Dtype::I32 | Dtype::U32 => Element::Integer(4),
            other => panic!("{name} holds {other:?}"),
        };
        (name, Tensor { element, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec() })
    };
    tensors.into_iter().map(convert).collect()
}

/// The operands of a set, and the result that is expected of them.
pub fn operands_and_result(folder_name: &str, set: &str) -> (Vec<Tensor>, Tensor) {
    let (mut operands, mut result) = (Vec::new(), None);
    for (name, tensor) in tensors(folder_name, set) {
        match name.as_str() {
            "out" => result = Some(tensor),
            _ => operands.push(tensor),
        }
    }
    (operands, result.expect("the set has a result"))
}
