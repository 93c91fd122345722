//! Kernels and tensors that tests run.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::{fs, io::Read, path::PathBuf};

use octile_mosaic::{
    Float,
    interpret::{Element, Options, Outcome, Tensor, simulate},
    parse,
};
use safetensors::{Dtype, SafeTensors};

/// One core of a tpu7x.
pub(crate) fn rates() -> octile_core::device::tpu::TpuRates {
    octile_core::device::tpu::TpuChip::named("tpu7x").expect("the chip is known").rates
}

pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub(crate) fn text(folder_name: &str, kernel: &str) -> String {
    let path = folder(folder_name).join(format!("{kernel}.mlir"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tensors of a file in the order in which they are stored, with their names.
pub(crate) fn tensors(folder_name: &str, set: &str) -> Vec<(String, Tensor)> {
    let path = folder(folder_name).join(format!("{set}.safetensors.gz"));
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("the file is gzip");
    let file = SafeTensors::deserialize(&bytes).expect("the file is safetensors");
    let mut tensors = file.tensors();
    tensors.sort_by_key(|(_, tensor)| tensor.data().as_ptr());
    let convert = |(name, tensor): (String, safetensors::tensor::TensorView<'_>)| {
        if tensor.dtype() == Dtype::F64 {
            let values = tensor.data().as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes) as f32);
            let bytes = values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
            return (
                name,
                Tensor { element: Element::Float(Float::F32), shape: tensor.shape().to_vec(), bytes },
            );
        }
        let element = match tensor.dtype() {
            Dtype::F32 => Element::Float(Float::F32),
            Dtype::BF16 => Element::Float(Float::Bf16),
            Dtype::F16 => Element::Float(Float::F16),
            Dtype::F8_E4M3 => Element::Float(Float::F8E4M3FN),
            Dtype::F8_E5M2 => Element::Float(Float::F8E5M2),
            Dtype::I8 | Dtype::U8 | Dtype::BOOL => Element::Integer(1),
            Dtype::I32 | Dtype::U32 => Element::Integer(4),
            Dtype::I64 | Dtype::U64 => Element::Integer(8),
            other => panic!("{name} holds {other:?}"),
        };
        (name, Tensor { element, shape: tensor.shape().to_vec(), bytes: tensor.data().to_vec().into() })
    };
    tensors.into_iter().map(convert).collect()
}

/// The operands of a set, and the result that is expected of them.
pub(crate) fn operands_and_result(folder_name: &str, set: &str) -> (Vec<Tensor>, Tensor) {
    let (mut operands, mut result) = (Vec::new(), None);
    for (name, tensor) in tensors(folder_name, set) {
        match name.as_str() {
            "out" => result = Some(tensor),
            _ => operands.push(tensor),
        }
    }
    (operands, result.expect("the set has a result"))
}

/// A vector, and a memref in vector memory, of 8 x 128.
pub(crate) const VECTOR: &str = "vector<8x128xf32>";
pub(crate) const NEAR: &str = "memref<8x128xf32, #tpu.memory_space<vmem>>";

/// A kernel on an operand `%x`, a result `%out` and a scratch buffer `%a`, all of 8 x 128 in vector memory.
/// `VECTOR` and `NEAR` in the body stand for their types; line 6 is its first.
pub(crate) fn small_kernel(body: &str) -> String {
    format!(
        "module {{
  func.func @k(%x: {NEAR}, %out: {NEAR}, %a: {NEAR}) attributes {{scratch_operands = 1 : i64, window_params = [{{}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    %i0 = arith.constant 0 : i32
    %v = vector.load %x[%c0, %c0] : {NEAR}, {VECTOR}
{}
    return
  }}
}}",
        body.replace("VECTOR", VECTOR).replace("NEAR", NEAR)
    )
}

/// A tensor of binary32.
pub(crate) fn floats(shape: &[usize], value: impl Fn(usize) -> f32) -> Tensor {
    let elements: usize = shape.iter().product();
    let bytes = (0..elements).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<u8>>().into();
    Tensor { element: Element::Float(Float::F32), shape: shape.to_vec(), bytes }
}

/// Runs such a kernel on the numbers from 1 on.
pub(crate) fn run_small(body: &str) -> Result<Outcome, String> {
    let module = parse(&small_kernel(body)).map_err(|error| error.to_string())?;
    let x = floats(&[8, 128], |i| i as f32 + 1.0);
    simulate(&module, &[x], &Options::new(rates())).map_err(|error| error.to_string())
}
