//! How each memory may be accessed, and what the MXU can multiply.

use octile_core::device::tpu::Fp8Support;

use super::{Rule, VerifiedKernel, Violation};
use crate::{
    interpret::{NO_MXU_CONTROL, controls_mxu},
    ir::Op,
    types::{Float, MemorySpace, Type},
};

pub(super) fn check(kernel: &VerifiedKernel<'_>, op: &Op) -> Vec<Violation> {
    let space = |operand: usize| match op.operands.get(operand).map(|&value| kernel.function.ty(value)) {
        Some(Type::MemRef(memref)) => memref.space,
        _ => None,
    };
    let far = |space| matches!(space, Some(MemorySpace::Hbm | MemorySpace::Any));
    let mut violations = Vec::new();
    let mut refuse = |rule, message: String| violations.push(Violation::at(rule, op, message));
    match op.name.as_ref() {
        "vector.load" | "tpu.vector_load" | "tpu.strided_load" => match space(0) {
            Some(MemorySpace::Smem) => {
                refuse(Rule::Space, "SMEM holds scalars: load with memref.load".into())
            }
            space if far(space) => {
                refuse(Rule::Space, "HBM cannot be loaded directly: DMA it to VMEM first".into())
            }
            _ => {}
        },
        "vector.store" | "tpu.vector_store" | "tpu.strided_store" => match space(1) {
            Some(MemorySpace::Smem) => {
                refuse(Rule::Space, "SMEM holds scalars: store with memref.store".into())
            }
            space if far(space) => refuse(Rule::Space, "HBM cannot be stored to directly: use a DMA".into()),
            _ => {}
        },
        "memref.load" if space(0) != Some(MemorySpace::Smem) && space(0).is_some() => {
            refuse(Rule::Space, "scalars can only be loaded from SMEM".into());
        }
        "memref.store" if space(1) != Some(MemorySpace::Smem) && space(1).is_some() => {
            refuse(Rule::Space, "scalars can only be stored to SMEM".into());
        }
        "tpu.matmul" => matmul(kernel, op, &mut refuse),
        name if controls_mxu(name) && kernel.chip.mxu_control.is_none() => {
            refuse(Rule::Chip, NO_MXU_CONTROL.into());
        }
        _ => {}
    }
    violations
}

fn matmul(kernel: &VerifiedKernel<'_>, op: &Op, refuse: &mut impl FnMut(Rule, String)) {
    let element = |operand: usize| op.operands.get(operand).map(|&value| kernel.function.ty(value).element());
    let wide = matches!(element(2), Some(Type::Float(Float::F32) | Type::Integer(32)) | None);
    if !wide {
        refuse(Rule::Types, "the accumulator must have 32 bits".into());
    }
    let is_fp8 = |ty: Option<&Type>| matches!(ty, Some(Type::Float(Float::F8E4M3FN | Float::F8E5M2)));
    if kernel.chip.fp8 == Fp8Support::Unsupported && (is_fp8(element(0)) || is_fp8(element(1))) {
        refuse(Rule::Chip, format!("{} cannot multiply 8-bit floats", kernel.chip.name));
    }
}
