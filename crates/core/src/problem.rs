//! What is multiplied, independent of how.

use std::{fmt, num::IntErrorKind, str::FromStr};

use serde::{Deserialize, Serialize};

/// Side of the square block of weights that shares one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub enum QuantBlock {
    /// 128 x 128, the DeepSeek and Qwen convention.
    B128,
    /// 256 x 256.
    B256,
    /// 512 x 512.
    B512,
}

impl QuantBlock {
    /// Every supported side.
    pub const ALL: [Self; 3] = [Self::B128, Self::B256, Self::B512];

    /// The side in elements.
    pub const fn size(self) -> usize {
        match self {
            Self::B128 => 128,
            Self::B256 => 256,
            Self::B512 => 512,
        }
    }

    /// Number of blocks that cover `len` elements.
    pub const fn count(self, len: usize) -> usize {
        len.div_ceil(self.size())
    }
}

impl TryFrom<usize> for QuantBlock {
    type Error = ProblemError;

    fn try_from(size: usize) -> Result<Self, ProblemError> {
        Self::ALL.into_iter().find(|qb| qb.size() == size).ok_or(ProblemError::QuantBlock(size))
    }
}

impl From<QuantBlock> for usize {
    fn from(block: QuantBlock) -> Self {
        block.size()
    }
}

/// A float type wider than 8 bits, of activations and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloatKind {
    /// IEEE binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
}

impl FloatKind {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Unit roundoff: the relative error of one rounding to this type.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F32 => 1.0 / (1u64 << 24) as f64,
            Self::Bf16 => 1.0 / 256.0,
            Self::F16 => 1.0 / 2048.0,
        }
    }

    /// Rounds `value` to this type, to nearest with ties to even.
    pub fn round(self, value: f32) -> f64 {
        match self {
            Self::F32 => value.into(),
            Self::Bf16 => half::bf16::from_f32(value).into(),
            Self::F16 => half::f16::from_f32(value).into(),
        }
    }
}

impl fmt::Display for FloatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// Which activations share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScaleGranularity {
    /// One scale per `qb x qb` block.
    Block,
    /// One scale per row and `qb` columns: a `1 x qb` token group, the DeepSeek convention.
    Token,
}

impl ScaleGranularity {
    /// Rows that share a scale.
    pub const fn rows(self, qb: QuantBlock) -> usize {
        match self {
            Self::Block => qb.size(),
            Self::Token => 1,
        }
    }
}

impl fmt::Display for ScaleGranularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Block => "block",
            Self::Token => "token",
        })
    }
}

/// The type of the activations, and whether they are multiplied in 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationKind {
    /// f8e4m3fn with scales.
    Fp8(ScaleGranularity),
    /// Wider floats that the call quantizes to f8e4m3fn.
    Quantized(FloatKind, ScaleGranularity),
    /// Wider floats, multiplied with the 8-bit weight without quantization.
    Plain(FloatKind),
}

impl ActivationKind {
    /// Bytes of one activation in the caller's memory.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Fp8(_) => 1,
            Self::Quantized(float, _) | Self::Plain(float) => float.bytes(),
        }
    }

    /// Granularity of the activation scales, if there are any.
    pub const fn granularity(self) -> Option<ScaleGranularity> {
        match self {
            Self::Fp8(granularity) | Self::Quantized(_, granularity) => Some(granularity),
            Self::Plain(_) => None,
        }
    }
}

impl fmt::Display for ActivationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fp8(granularity) => write!(f, "fp8 ({granularity} scales)"),
            Self::Quantized(float, granularity) => {
                write!(f, "{float} quantized to fp8 ({granularity} scales)")
            }
            Self::Plain(float) => write!(f, "{float}"),
        }
    }
}

/// One multiplication: `x` of `m x k` times the transpose of a weight of `n x k`.
///
/// Make one with [`Problem::new`] and the `with_*` methods: fields may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedProblem")]
pub struct Problem {
    /// Rows of the activations and of the result.
    pub m: usize,
    /// Rows of the weight, columns of the result.
    pub n: usize,
    /// Columns of the activations and of the weight.
    pub k: usize,
    /// Quantization block of the weight.
    pub quant_block: QuantBlock,
    /// Activations.
    pub x: ActivationKind,
    /// Element type of the result.
    pub out: FloatKind,
}

/// The fields of a problem before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedProblem {
    m: usize,
    n: usize,
    k: usize,
    quant_block: QuantBlock,
    x: ActivationKind,
    out: FloatKind,
}

impl TryFrom<UncheckedProblem> for Problem {
    type Error = ProblemError;

    fn try_from(unchecked: UncheckedProblem) -> Result<Self, ProblemError> {
        let UncheckedProblem { m, n, k, quant_block, x, out } = unchecked;
        Ok(Self::new(m, n, k, quant_block)?.with_x(x).with_out(out))
    }
}

/// An invalid problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Unsupported side of a quantization block.
    #[error("quantization block {0} is not supported: use 128, 256 or 512")]
    QuantBlock(usize),
    /// A dimension is zero.
    #[error("shape {m}x{n}x{k} has an empty dimension: M, N and K must be at least 1")]
    Empty {
        /// Rows of x.
        m: usize,
        /// Outputs.
        n: usize,
        /// Inputs.
        k: usize,
    },
    /// A number that overflows.
    #[error("{0} in shape '{1}' is too large")]
    Number(String, String),
    /// Not of the form `MxNxK:QB`.
    #[error("shape '{0}' is not of the form MxNxK:QB, for example 512x512x512:128")]
    Syntax(String),
    /// Operands that exceed the address space.
    #[error("shape {m}x{n}x{k} is too large to address")]
    TooLarge {
        /// Rows of x.
        m: usize,
        /// Outputs.
        n: usize,
        /// Inputs.
        k: usize,
    },
}

impl Problem {
    /// A problem on pre-quantized activations with block scales and an f32 result.
    pub fn new(m: usize, n: usize, k: usize, quant_block: QuantBlock) -> Result<Self, ProblemError> {
        if m == 0 || n == 0 || k == 0 {
            return Err(ProblemError::Empty { m, n, k });
        }
        // 16 bytes per element is more than any operand needs, so later byte counts cannot overflow.
        let fits = |a: usize, b: usize| a.checked_mul(b).and_then(|e| e.checked_mul(16)).is_some();
        if !(fits(m, k) && fits(n, k) && fits(m, n)) {
            return Err(ProblemError::TooLarge { m, n, k });
        }
        let x = ActivationKind::Fp8(ScaleGranularity::Block);
        Ok(Self { m, n, k, quant_block, x, out: FloatKind::F32 })
    }

    /// The same problem on other activations.
    pub fn with_x(self, x: ActivationKind) -> Self {
        Self { x, ..self }
    }

    /// The same problem with another result type.
    pub fn with_out(self, out: FloatKind) -> Self {
        Self { out, ..self }
    }

    /// Shape of the weight scales: blocks along N and K.
    pub fn w_scale_shape(&self) -> (usize, usize) {
        (self.quant_block.count(self.n), self.quant_block.count(self.k))
    }

    /// Shape of the activation scales, if there are any.
    pub fn x_scale_shape(&self) -> Option<(usize, usize)> {
        let rows = self.x.granularity()?.rows(self.quant_block);
        Some((self.m.div_ceil(rows), self.quant_block.count(self.k)))
    }

    /// Floating-point operations: a multiply-add counts as two.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Compulsory memory traffic in bytes: operands with their scales, and the result.
    pub fn min_bytes(&self) -> usize {
        let scales = |(rows, cols): (usize, usize)| rows * cols * 4;
        let operands = self.m * self.k * self.x.bytes() + self.n * self.k;
        let result = self.m * self.n * self.out.bytes();
        operands + result + scales(self.w_scale_shape()) + self.x_scale_shape().map_or(0, scales)
    }
}

/// The shape as on command lines: `MxNxK:QB`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}:{}", self.m, self.n, self.k, self.quant_block.size()))
    }
}

/// The beginning of a text, to be quoted in an error: a file that is none of shapes has long lines.
fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl FromStr for Problem {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, ProblemError> {
        let syntax = || ProblemError::Syntax(quoted(text));
        let (dims, qb) = text.split_once(':').ok_or_else(syntax)?;
        let number = |part: &str| {
            part.parse::<usize>().map_err(|error| match error.kind() {
                IntErrorKind::PosOverflow => ProblemError::Number(quoted(part), quoted(text)),
                _ => syntax(),
            })
        };
        let dims = dims.split(['x', 'X']).map(number).collect::<Result<Vec<_>, _>>()?;
        let &[m, n, k] = dims.as_slice() else {
            return Err(syntax());
        };
        Self::new(m, n, k, QuantBlock::try_from(number(qb)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_parse_back() {
        let problem: Problem = "1024x4096x2048:512".parse().unwrap();
        assert_eq!((problem.m, problem.n, problem.k), (1024, 4096, 2048));
        assert_eq!(problem.to_string(), "1024x4096x2048:512");
    }

    #[test]
    fn bad_shapes_say_what_is_wrong() {
        let error = |text: &str| text.parse::<Problem>().unwrap_err().to_string();
        let long = format!("shape '{}...' is not of", "x".repeat(60));
        assert!(error(&"x".repeat(1 << 20)).starts_with(&long));
        assert_eq!(error("5x5"), "shape '5x5' is not of the form MxNxK:QB, for example 512x512x512:128");
        assert_eq!(
            error("1x99999999999999999999x1:128"),
            "99999999999999999999 in shape '1x99999999999999999999x1:128' is too large"
        );
        assert_eq!(error("5x5x5:100"), "quantization block 100 is not supported: use 128, 256 or 512");
        assert_eq!(error("0x5x5:128"), "shape 0x5x5 has an empty dimension: M, N and K must be at least 1");
        assert_eq!(
            error("9999999999x9999999999x1:128"),
            "shape 9999999999x9999999999x1 is too large to address"
        );
    }

    #[test]
    fn ragged_scale_shapes_round_up() {
        let problem = Problem::new(130, 1, 257, QuantBlock::B128).unwrap();
        assert_eq!(problem.w_scale_shape(), (1, 3));
        assert_eq!(problem.x_scale_shape(), Some((2, 3)));
        let token = problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token));
        assert_eq!(token.x_scale_shape(), Some((130, 3)));
    }
}
