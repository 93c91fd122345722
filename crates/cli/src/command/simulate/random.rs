//! Random operands of the right types and shapes.

use anyhow::{Result, bail};
use octile_core::sample::Rng;
use octile_mosaic::{
    interpret::{Element, OperandSpec, Signature, Tensor},
    types::DYNAMIC,
};

use super::spelled;

/// Bytes of all random operands; a module may claim any shape.
const MAX_BYTES: usize = 1 << 30;

/// Bounds of random integers, tried in turn while an access is out of bounds: an integer operand may be an
/// index. The last bound makes them all 0.
pub(super) const INTEGERS_BELOW: [u64; 3] = [8, 2, 1];

/// Whether an operand's values depend on the bound of integers.
pub(super) fn has_integers(signature: &Signature) -> bool {
    signature.operands.iter().any(|spec| matches!(spec.element, Element::Integer(2..)))
}

/// Makes one tensor per operand. Floats are roughly normal; integers of 16 bits or more, which may be indices
/// or sizes, are in `0..below`; 8-bit integers are data, and cover their range.
pub(super) fn operands(signature: &Signature, seed: u64, below: u64) -> Result<Vec<Tensor>> {
    let mut left = MAX_BYTES;
    let mut made = Vec::with_capacity(signature.operands.len());
    for (number, spec) in signature.operands.iter().enumerate() {
        if spec.shape.contains(&DYNAMIC) {
            bail!(
                "the module does not state the shape of operand {number} of @{}: pass --tensors FILE, or the \
                 module around the kernel (lowered.as_text())",
                signature.entry
            );
        }
        let elements = spec.shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        // Drawn as f32.
        let bytes = elements.and_then(|elements| elements.checked_mul(spec.element.bytes().max(4)));
        left = match bytes.and_then(|bytes| left.checked_sub(bytes)) {
            Some(left) => left,
            None => bail!(
                "operand {number} of @{} is {}: random operands take at most {} MiB; pass --tensors FILE",
                signature.entry,
                spelled(spec.element, &spec.shape),
                MAX_BYTES >> 20
            ),
        };
        made.push(tensor(spec, elements.unwrap_or(0), &mut Rng::new(seed, number as u64), below));
    }
    Ok(made)
}

fn tensor(spec: &OperandSpec, elements: usize, rng: &mut Rng, below: u64) -> Tensor {
    let mut draw = || match spec.element {
        _ if spec.is_boolean => (rng.next_u64() & 1) as f32,
        Element::Float(_) => rng.bell(),
        Element::Integer(1) => (rng.next_u64() % 256) as f32 - 128.0,
        // A single integer is more often a size or a count than an index.
        Element::Integer(_) if elements == 1 && below > 1 => (1 + rng.next_u64() % (below - 1)) as f32,
        Element::Integer(_) => (rng.next_u64() % below) as f32,
    };
    let values = (0..elements).map(|_| draw()).collect();
    Tensor::from_f32(spec.element, &spec.shape, values)
}
