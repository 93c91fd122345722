//! What a multiplication takes and gives, for any number of rows.

use octile_core::{ActivationKind, Problem};

use crate::{
    Block, DType, Error, Scales,
    dtype::{Input, Output},
};

/// A multiplication of any number of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatmulProblem(Problem);

impl MatmulProblem {
    pub(crate) fn new(
        [n, k]: [usize; 2],
        block: Block,
        (dtype, scales): (DType, Scales),
        out: DType,
    ) -> Result<Self, Error> {
        let x = scales.of(dtype).ok_or(Error::UnsupportedType(
            "f8e4m3 activations need scales: choose Scales::PerToken or Scales::PerBlock",
        ))?;
        let out = out
            .wide()
            .ok_or(Error::UnsupportedType("the output cannot be f8e4m3: choose f32, bf16 or f16"))?;
        Ok(Self(Problem::new(1, n, k, block)?.with_x(x).with_out(out)))
    }

    /// The multiplication of `m` rows.
    pub(crate) fn rows(&self, m: usize) -> Result<Problem, Error> {
        let Problem { n, k, quant_block, x, out, .. } = self.0;
        Ok(Problem::new(m, n, k, quant_block)?.with_x(x).with_out(out))
    }

    /// The multiplication of these operands; none if they have no rows.
    pub(crate) fn of(&self, x: &Input<'_>, out: &Output<'_>) -> Result<Option<Problem>, Error> {
        require_type("x", x.dtype(), self.activations())?;
        require_type("the output", out.dtype(), self.output())?;
        let Problem { n, k, .. } = self.0;
        if !x.len().is_multiple_of(k) {
            return Err(Error::InputLength { len: x.len(), k });
        }
        let m = x.len() / k;
        if m.checked_mul(n) != Some(out.len()) {
            return Err(Error::OutputLength { len: out.len(), m, n });
        }
        (m > 0).then(|| self.rows(m)).transpose()
    }

    /// Type of the activations.
    pub(crate) fn activations(&self) -> DType {
        match self.0.x {
            ActivationKind::Fp8(_) => DType::F8E4M3,
            ActivationKind::Quantized(kind, _) | ActivationKind::Plain(kind) => DType::of(kind),
        }
    }

    /// Type of the results.
    pub(crate) fn output(&self) -> DType {
        DType::of(self.0.out)
    }

    /// N and K.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.0.n, self.0.k]
    }

    /// Side of a quantization block.
    pub(crate) fn block(&self) -> Block {
        self.0.quant_block
    }
}

fn require_type(what: &'static str, given: DType, expected: DType) -> Result<(), Error> {
    if given == expected { Ok(()) } else { Err(Error::ElementType { what, given, expected }) }
}
